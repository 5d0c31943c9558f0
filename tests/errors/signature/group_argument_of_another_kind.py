"""A tuple is passed as a tuple."""

import tilewright as tw
from tilewright import Mut, f32
from tilewright.dims import B


@tw.kernel
def fill(z: Mut[f32, B], pair: tuple[f32, f32]) -> None:
    z.store(tw.full((B,), pair[0] + pair[1], f32))


fill(tw.zeros((256,), f32).partition(128), (1.0, 2.0, 3.0))
