"""There is nothing to name."""

import tilewright as tw
from tilewright import Mut, Ref, f32, i32
from tilewright.dims import B, N


@tw.kernel
def k(z: Mut[f32, B], x: Ref[f32, N], n: i32) -> None:
    with tw.unsafe("n is below the number of tiles") as why:
        z.store(x.partition(B).load_unchecked(n))


k(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32), 3)
