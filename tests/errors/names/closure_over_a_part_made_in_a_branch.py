"""A function that holds a part of a piece cannot leave the branch in which the part was made."""

import tilewright as tw
from tilewright import Mut, i32
from tilewright.dims import B


def storing(part):
    return lambda t, i: part.store(t, i)


@tw.kernel
def halves(z: Mut[i32, B], n: i32) -> None:
    if n > 0:
        store = storing(z.partition(B // 2))
    else:
        return
    store(tw.ones((B // 2,), i32), 0)


halves(tw.zeros((256,), i32).partition(128), 3)
