"""A promise that the compiler would believe."""

import tilewright as tw
from tilewright import Mut, Ref, f32, i32
from tilewright.dims import B, N


@tw.kernel
def k(z: Mut[f32, B], x: Ref[f32, N], n: i32) -> None:
    xs = x.partition(B)
    tw.assume(n < xs.num_tiles(0))
    z.store(xs[n])


k(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32), 3)
