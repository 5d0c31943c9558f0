"""Both matrices have one dtype."""

import tilewright as tw
from tilewright import Mut, Ref, bf16, f16, f32
from tilewright.dims import BM, BN, K, M, N


@tw.kernel
def scale(z: Mut[f32, BM, BN], x: Ref[f16, M, K], y: Ref[bf16, K, N]) -> None:
    i, j = z.index
    a, b = x.partition(BM, 32)[i, 0], y.partition(32, BN)[0, j]
    z.store(a @ b)


scale(
    tw.zeros((64, 64), f32).partition(16, 16),
    tw.zeros((64, 64), f16),
    tw.zeros((64, 64), bf16),
)
