"""The branches give a name one dtype and one shape."""

import tilewright as tw
from tilewright import Mut, Ref, f16, f32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    if tw.num_blocks() > 1:
        t = x.load_like(z)
    else:
        t = x.load_like(z).astype(f16)
    z.store(t)


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
