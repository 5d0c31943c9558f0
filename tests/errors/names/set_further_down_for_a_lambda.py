"""A name that a kernel sets is its own everywhere, also where a lambda uses it."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N

FACTOR = 2.0


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    before = FACTOR
    scaled = lambda t: t * FACTOR
    FACTOR = 3.0
    z.store(scaled(x.load_like(z)) * before)


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
