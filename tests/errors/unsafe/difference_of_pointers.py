"""Pointers are moved, not compared or subtracted."""

import tilewright as tw
from tilewright import Mut, Ptr, f32
from tilewright.dims import B


@tw.kernel(unsafe=True)
def k(z: Mut[f32, B], p: Ptr[f32]) -> None:
    with tw.unsafe("alone"):
        q = p - p


k.unsafe(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
