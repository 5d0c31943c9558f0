"""Integers have no NaN."""

import tilewright as tw
from tilewright import Mut, Ref, i32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[i32, B], x: Ref[i32, N]) -> None:
    z.store(tw.maximum(x.load_like(z), 0, nan=True))


scale(tw.zeros((256,), i32).partition(128), tw.zeros((256,), i32))
