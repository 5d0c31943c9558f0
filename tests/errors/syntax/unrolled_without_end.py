"""Every turn of an unrolled loop is code of its own."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    t = x.load_like(z)
    for _ in tw.static_range(100000):
        t = t * 2
    z.store(t)


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
