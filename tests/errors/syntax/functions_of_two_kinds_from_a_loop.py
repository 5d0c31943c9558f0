"""A function returns the same function on every path, or its values could not be handed on."""

import tilewright as tw
from tilewright import Mut, i32
from tilewright.dims import B


def chosen(n):
    for i in range(n):
        if i == 2:
            return lambda t: t + i
        if i == 3:
            return lambda t: t * i
    return lambda t: t


@tw.kernel
def apply(z: Mut[i32, B], n: i32) -> None:
    z.store(chosen(n)(tw.ones((B,), i32)))


apply(tw.zeros((256,), i32).partition(128), 5)
