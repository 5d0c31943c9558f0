"""Nothing below 32 bits is counted atomically."""

import tilewright as tw
from tilewright import Accum, Mut, Ref, i8, i32
from tilewright.dims import B, N


@tw.kernel
def count(done: Mut[i32, B], total: Accum[i8, N], x: Ref[i32, N]) -> None:
    total.add_at(1, x.load_like(done))


count(tw.zeros((256,), i32).partition(128), tw.zeros((256,), i8), tw.ones((256,), i32))
