"""Tiles that are broadcast to more than 16,777,216 elements."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    n = tw.arange(8192)
    z.store(x.load_like(z) + tw.sum(n.reshape(8192, 1) * n).astype(f32))


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
