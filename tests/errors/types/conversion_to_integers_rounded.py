"""Floats are cut to integers."""

import tilewright as tw
from tilewright import Mut, Ref, f32, i32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(x.load_like(z).astype(i32, rounding="up").astype(f32))


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
