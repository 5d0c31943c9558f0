"""A tensor at a place is still a tensor, here one without axes."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(x[0])


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
