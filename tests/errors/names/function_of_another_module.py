"""Functions of `math` are for constants."""

import math

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(math.sqrt(x.load_like(z)) * math.sqrt(2.0))


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
