"""Which axis is meant is known when the kernel is compiled."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import BM, BN, M, N


@tw.kernel
def scale(z: Mut[f32, BM, BN], x: Ref[f32, M, N]) -> None:
    xs = x.partition(BM, BN)
    for axis in range(2):
        z.store(x.load_like(z) * xs.num_tiles(axis).astype(f32))


scale(tw.zeros((64, 64), f32).partition(32, 32), tw.zeros((64, 64), f32))
