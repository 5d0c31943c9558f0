"""The step of a range is not zero."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    for i in range(0, 4, 0):
        pass
    z.store(x.load_like(z))


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
