"""A right side of shape [N, K] is transposed."""

import tilewright as tw
from tilewright import Mut, Ref, f16, f32
from tilewright.dims import BM, BN, K, M, N


@tw.kernel
def scale(z: Mut[f32, BM, BN], x: Ref[f16, M, K], y: Ref[f16, N, K]) -> None:
    i, j = z.index
    a, b = x.partition(BM, 32)[i, 0], y.partition(BN, 32)[j, 0]
    z.store(a @ b)


scale(
    tw.zeros((64, 64), f32).partition(16, 16),
    tw.zeros((64, 64), f16),
    tw.zeros((64, 64), f16),
)
