"""The last turn is certainly outside."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel(deny_checks=True)
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    acc = tw.zeros((B,), f32)
    xs = x.partition(B)
    for i in range(xs.num_tiles(0) + 1):
        acc += xs[i]
    z.store(acc)


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
