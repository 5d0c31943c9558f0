"""A plain store to what all blocks share is a race."""

import tilewright as tw
from tilewright import Accum, Mut, Ref, f32, i32
from tilewright.dims import B, N


@tw.kernel
def overwrite(done: Mut[i32, B], total: Accum[f32, N], x: Ref[f32, N]) -> None:
    total.store(x.load_like(done), 0)


overwrite(tw.zeros((256,), i32).partition(128), tw.zeros((256,), f32), tw.ones((256,), f32))
