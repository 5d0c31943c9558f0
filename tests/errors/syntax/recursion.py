"""Functions are inlined, so a recursion has no end."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


def halved(t, n):
    if n == 0:
        return t
    return halved(t / 2, n - 1)


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(halved(x.load_like(z), 8))


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
