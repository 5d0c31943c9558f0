"""A precondition is about the launch and not about one turn of a loop."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    xs = x.partition(B)
    for i in range(xs.num_tiles(0)):
        tw.require(i < 4)
    z.store(x.load_like(z))


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
