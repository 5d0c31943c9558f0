"""bf16 is summed in f32 only."""

import tilewright as tw
from tilewright import Mut, Ref, bf16, f16
from tilewright.dims import BM, BN, K, M, N


@tw.kernel
def scale(z: Mut[f16, BM, BN], x: Ref[bf16, M, K], y: Ref[bf16, K, N]) -> None:
    i, j = z.index
    a, b = x.partition(BM, 32)[i, 0], y.partition(32, BN)[0, j]
    z.store(tw.mma(a, b, tw.zeros((BM, BN), f16)))


scale(
    tw.zeros((64, 64), f16).partition(16, 16),
    tw.zeros((64, 64), bf16),
    tw.zeros((64, 64), bf16),
)
