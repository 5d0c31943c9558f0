"""An index is clipped to an axis that is there."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def read(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    p = x.partition(B)
    z.store(p[p.clip(7, 1)])


read(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
