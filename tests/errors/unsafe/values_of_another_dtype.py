"""What is stored has the dtype of what is pointed to."""

import tilewright as tw
from tilewright import Mut, Ptr, f32
from tilewright.dims import B


@tw.kernel(unsafe=True)
def k(z: Mut[f32, B], p: Ptr[f32]) -> None:
    with tw.unsafe("alone"):
        tw.store(p + tw.arange(4), tw.arange(4))


k.unsafe(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
