"""There is nothing to answer for."""

import tilewright as tw
from tilewright import Mut, f32
from tilewright.dims import B


@tw.kernel
def k(z: Mut[f32, B]) -> None:
    z.store(tw.zeros((B,), f32))


k.unsafe(tw.zeros((256,), f32).partition(128))
