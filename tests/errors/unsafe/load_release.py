"""A load releases nothing."""

import tilewright as tw
from tilewright import Mut, Ptr, f32
from tilewright.dims import B


@tw.kernel(unsafe=True)
def k(z: Mut[f32, B], p: Ptr[f32]) -> None:
    with tw.unsafe("alone"):
        z.store(z.load() + tw.load(p, ordering="release").item())


k.unsafe(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
