"""A combination does not branch."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


def larger(a: f32, b: f32) -> f32:
    if a > b:
        b = a
    return b


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(x.load_like(z) + tw.reduce(x.load_like(z), larger, 0))


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
