"""An order names each axis once."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import BM, BN, M, N


@tw.kernel
def read(z: Mut[f32, BM, BN], x: Ref[f32, M, N]) -> None:
    z.store(x.partition(BM, BN, order=(0, 0))[z.index])


read(tw.zeros((64, 64), f32).partition(32, 32), tw.zeros((64, 64), f32))
