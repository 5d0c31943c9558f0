"""A block counts where it is written: a function called from it needs its own."""

import tilewright as tw
from tilewright import Mut, Ref, f32, i32
from tilewright.dims import B, N


def tile_at(xs, n):
    return xs.load_unchecked(n)


@tw.kernel
def k(z: Mut[f32, B], x: Ref[f32, N], n: i32) -> None:
    with tw.unsafe("n is below the number of tiles"):
        z.store(tile_at(x.partition(B), n))


k(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32), 3)
