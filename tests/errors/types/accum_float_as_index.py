"""Elements are counted."""

import tilewright as tw
from tilewright import Accum, Mut, Ref, f32, i32
from tilewright.dims import B, N


@tw.kernel
def scatter(done: Mut[i32, B], total: Accum[f32, N], x: Ref[f32, N]) -> None:
    total.add_at(1, x.load_like(done))


scatter(tw.zeros((256,), i32).partition(128), tw.zeros((256,), f32), tw.ones((256,), f32))
