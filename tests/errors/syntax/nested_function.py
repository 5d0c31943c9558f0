"""A function inside a kernel is a plain one, and calls itself as little as any other."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    @tw.kernel
    def decorated(t):
        return t

    def double(t):
        return double(t)

    def late(t):
        u = v
        v = t
        return u

    again = lambda t: again(t)
    z.store(double(x.load_like(z)))
    z.store(late(x.load_like(z)))
    z.store(again(x.load_like(z)))


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
