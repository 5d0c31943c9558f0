"""A piece of 96 is used in parts."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(x.load_like(z))


scale(tw.zeros((192,), f32).partition(96), tw.zeros((192,), f32))
