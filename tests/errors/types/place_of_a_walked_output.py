"""The piece of a walk has a place; the output has many."""

from typing import Literal

import tilewright as tw
from tilewright import Cut, Mapped, Ref, f32
from tilewright.dims import BM, B, H, S


@tw.kernel
def copy(
    z: Mapped[f32, Cut[B, Literal[1]], Cut[H, Literal[1]], Cut[S, BM]], q: Ref[f32, B, H, S]
) -> None:
    for at in z.indices():
        b, h, i = at
        z[b, h].store(q[b, h].partition(BM)[i])


q = tw.zeros((2, 3, 4), f32)
copy(tw.zeros((2, 3, 4), f32).partition(1, 1, 2).persistent(), q)
