"""A loop hands on a value of one dtype."""

import tilewright as tw
from tilewright import Mut, Ref, f16, f32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    acc = x.load_like(z)
    for i in range(4):
        acc = acc.astype(f16)
    z.store(acc)


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
