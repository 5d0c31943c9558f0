"""A plain function is called as it is declared."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


def scaled(t, factor):
    return t * factor


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(scaled(x.load_like(z)))


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
