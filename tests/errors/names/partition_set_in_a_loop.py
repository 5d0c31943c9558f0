"""A loop hands on values, not views of tensors."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    p = x.partition(B)
    for i in range(4):
        p = x.partition(B)
    z.store(p[0])


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
