"""What is made of a piece in a branch stays there."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    for i in range(4):
        if i > tw.num_blocks():
            break
        else:
            parts = z.partition(64)
        parts.store(tw.zeros((64,), f32), 0)
    z.store(x.load_like(z))


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
