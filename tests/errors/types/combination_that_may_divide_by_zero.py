"""A combination has no place for a check."""

import tilewright as tw
from tilewright import Mut, Ref, f32, i32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    t = x.load_like(z).astype(i32)
    z.store(x.load_like(z) + tw.reduce(t, lambda a, b: a // b, 1).astype(f32))


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
