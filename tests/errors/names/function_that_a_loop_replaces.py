"""Behind a loop that sets it to another function, a name has no single value."""

import tilewright as tw
from tilewright import Mut, i32
from tilewright.dims import B


@tw.kernel
def apply(z: Mut[i32, B], n: i32) -> None:
    f = lambda t: t
    for i in range(n):
        f = lambda t: t + i
    z.store(f(tw.ones((B,), i32)))


apply(tw.zeros((256,), i32).partition(128), 5)
