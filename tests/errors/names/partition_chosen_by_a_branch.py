"""A branch chooses between values, not between views of tensors."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N], y: Ref[f32, N]) -> None:
    if tw.num_blocks() > 1:
        p = x.partition(B)
    else:
        p = y.partition(B)
    z.store(p[0])


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32), tw.zeros((256,), f32))
