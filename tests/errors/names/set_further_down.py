"""A name that a function sets anywhere is its own everywhere, as in Python."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N

FACTOR = 2.0


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(x.load_like(z) * FACTOR)
    FACTOR = 3.0
    z.store(z.load() * FACTOR)


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
