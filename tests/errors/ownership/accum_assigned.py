"""So is an assignment."""

import tilewright as tw
from tilewright import Accum, Mut, Ref, f32, i32
from tilewright.dims import B, N


@tw.kernel
def overwrite(done: Mut[i32, B], total: Accum[f32, N], x: Ref[f32, N]) -> None:
    total[0] = x.load_like(done)


overwrite(tw.zeros((256,), i32).partition(128), tw.zeros((256,), f32), tw.ones((256,), f32))
