"""The order of the blocks would be seen: one kind for each parameter."""

import tilewright as tw
from tilewright import Accum, Mut, Ref, i32
from tilewright.dims import B, N


@tw.kernel
def count(done: Mut[i32, B], total: Accum[i32, N], x: Ref[i32, N]) -> None:
    total.add(x.load_like(done), 0)
    if done.index[0] > 0:
        total.max_at(1, x.load_like(done))


count(tw.zeros((256,), i32).partition(128), tw.zeros((256,), i32), tw.ones((256,), i32))
