"""The accumulator has the shape of the product."""

import tilewright as tw
from tilewright import Mut, Ref, f16, f32
from tilewright.dims import BM, BN, K, M, N


@tw.kernel
def scale(z: Mut[f32, BM, BN], x: Ref[f16, M, K], y: Ref[f16, K, N]) -> None:
    i, j = z.index
    a, b = x.partition(BM, 32)[i, 0], y.partition(32, BN)[0, j]
    z.store(tw.mma(a, b, tw.zeros((BN, BN), f32)))


scale(
    tw.zeros((64, 64), f32).partition(16, 32),
    tw.zeros((64, 64), f16),
    tw.zeros((64, 64), f16),
)
