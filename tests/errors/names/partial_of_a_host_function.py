"""A partial function is one of something that kernels can call."""

import functools
import math

import tilewright as tw
from tilewright import Mut, f32
from tilewright.dims import B

cube = functools.partial(math.pow, 3.0)


@tw.kernel
def fill(z: Mut[f32, B]) -> None:
    z.store(tw.full((B,), cube(2.0), f32))


fill(tw.zeros((256,), f32).partition(128))
