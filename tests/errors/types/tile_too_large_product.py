"""A matrix product of more than 16,777,216 elements."""

import tilewright as tw
from tilewright import Mut, Ref, f16, f32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    rows = tw.zeros((8192, 16), f16)
    z.store(x.load_like(z) + tw.sum(rows @ rows.T))


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
