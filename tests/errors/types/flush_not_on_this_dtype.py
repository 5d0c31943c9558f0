"""Subnormal numbers are flushed in f32 only."""

import tilewright as tw
from tilewright import Mut, Ref, f16
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f16, B], x: Ref[f16, N]) -> None:
    z.store(tw.exp2(x.load_like(z), ftz=True))


scale(tw.zeros((256,), f16).partition(128), tw.zeros((256,), f16))
