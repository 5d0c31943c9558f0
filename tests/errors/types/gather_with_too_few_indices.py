"""Every axis has its index."""

import tilewright as tw
from tilewright import Mut, Ref, f32, i32
from tilewright.dims import B, M, N


@tw.kernel
def read(z: Mut[f32, B], x: Ref[f32, M, N]) -> None:
    z.store(x.gather(tw.arange(B, i32)))


read(tw.zeros((256,), f32).partition(128), tw.zeros((4, 4), f32))
