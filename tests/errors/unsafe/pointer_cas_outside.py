"""An exchange through a pointer, with no block around it."""

import tilewright as tw
from tilewright import Mut, Ptr, f32, i32
from tilewright.dims import B


@tw.kernel(unsafe=True)
def k(z: Mut[f32, B], p: Ptr[f32], n: i32) -> None:
    tw.atomic_cas(p, 0.0, 1.0)


k.unsafe(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32), 3)
