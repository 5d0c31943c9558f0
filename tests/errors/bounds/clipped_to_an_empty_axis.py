"""There is nothing to clip to in an empty axis."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def read(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    p = x.partition(B)
    z.store(p[p.clip(7, 0)])


read(tw.zeros((256,), f32).partition(128), tw.zeros((0,), f32))
