"""A window that begins behind the tensor is none."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def read(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    w = x.windows(B, step=32)
    z.store(w[w.num_tiles(0)])


read(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
