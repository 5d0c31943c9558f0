"""Only sums of 8-bit floats can be fast."""

import tilewright as tw
from tilewright import Mut, Ref, f16, f32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    a = x.load_like(z).reshape(16, 8).astype(f16)
    z.store(x.load_like(z) + tw.sum(tw.mma(a, a.T, tw.zeros((16, 16), f32), fast_acc=True)))


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
