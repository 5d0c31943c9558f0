"""An atomic is never weak."""

import tilewright as tw
from tilewright import Mut, Ptr, f32, i32
from tilewright.dims import B


@tw.kernel(unsafe=True)
def k(z: Mut[f32, B], p: Ptr[i32]) -> None:
    with tw.unsafe("alone"):
        tw.atomic_add(p, 1, ordering="weak")


k.unsafe(tw.zeros((256,), f32).partition(128), tw.zeros((256,), i32))
