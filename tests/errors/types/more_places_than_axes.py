"""A tensor has one place along each axis."""

from typing import Literal

import tilewright as tw
from tilewright import Cut, Mut, Ref, f32
from tilewright.dims import BM, B, H, S


@tw.kernel
def copy(
    z: Mut[f32, Cut[B, Literal[1]], Cut[H, Literal[1]], Cut[S, BM]], q: Ref[f32, B, H, S]
) -> None:
    b, h, i = z.index
    z[b, h].store(tw.full((BM,), q[b, h, i, 0].item(), f32))


q = tw.zeros((2, 3, 4), f32)
copy(tw.zeros((2, 3, 4), f32).partition(1, 1, 2), q)
