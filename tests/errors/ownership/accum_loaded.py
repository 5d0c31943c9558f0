"""What other blocks have added so far is not defined."""

import tilewright as tw
from tilewright import Accum, Mut, Ref, f32, i32
from tilewright.dims import B, N


@tw.kernel
def running_total(done: Mut[i32, B], total: Accum[f32, N], x: Ref[f32, N]) -> None:
    total.add(x.load_like(done), 0)
    seen = total.load()
    done.store(seen.astype(i32))


running_total(tw.zeros((256,), i32).partition(128), tw.zeros((256,), f32), tw.ones((256,), f32))
