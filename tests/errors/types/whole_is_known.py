"""Whether only whole tiles are meant is known when the kernel is compiled."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def copy(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(x.partition(B, whole=N)[z.index[0]])


copy(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
