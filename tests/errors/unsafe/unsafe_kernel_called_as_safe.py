"""The caller answers for the pointers."""

import tilewright as tw
from tilewright import Mut, Ptr, f32
from tilewright.dims import B


@tw.kernel(unsafe=True)
def k(z: Mut[f32, B], p: Ptr[f32]) -> None:
    z.store(tw.zeros((B,), f32))


k(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
