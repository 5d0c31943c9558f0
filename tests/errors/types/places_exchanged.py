"""Two places of a piece that are exchanged are not the block's own."""

from typing import Literal

import tilewright as tw
from tilewright import Cut, Mut, Ref, f32
from tilewright.dims import BM, B, H, S


@tw.kernel
def copy(
    z: Mut[f32, Cut[B, Literal[1]], Cut[H, Literal[1]], Cut[S, BM]], q: Ref[f32, B, H, S]
) -> None:
    b, h, i = z.index
    z[h, b].store(q[b, h].partition(BM)[i])


q = tw.zeros((2, 3, 4), f32)
copy(tw.zeros((2, 3, 4), f32).partition(1, 1, 2), q)
