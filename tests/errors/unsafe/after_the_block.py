"""A block ends with its last statement."""

import tilewright as tw
from tilewright import Mut, Ref, f32, i32
from tilewright.dims import B, N


@tw.kernel
def k(z: Mut[f32, B], x: Ref[f32, N], n: i32) -> None:
    xs = x.partition(B)
    with tw.unsafe("n is below the number of tiles"):
        t = xs.load_unchecked(n)
    z.store(t + xs.load_unchecked(n + 1))


k(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32), 3)
