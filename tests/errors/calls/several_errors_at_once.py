"""Independent problems are reported together, derived ones are not."""

import tilewright as tw
from tilewright import Mut, Ref, f16, f32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    a = x.load_like(z) + nothing
    b = a * 2
    c = x.load_like(z) @ x.load_like(z)
    x.store(b)
    z.store(x.load_like(z).astype(f16))
    for i in range(4):
        d = c + undefined_too
    z.store(b)


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
