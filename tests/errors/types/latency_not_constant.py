"""A hint is known when the kernel is compiled."""

import tilewright as tw
from tilewright import Mut, Ref, f32, i32
from tilewright.dims import B, N


@tw.kernel
def read(z: Mut[f32, B], x: Ref[f32, N], n: i32) -> None:
    z.store(x.partition(B).load(z.index[0], latency=n))


read(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32), 3)
