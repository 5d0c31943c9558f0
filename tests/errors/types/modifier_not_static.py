"""A modifier is a constant."""

import tilewright as tw
from tilewright import Mut, Ref, f32, i32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N], n: i32) -> None:
    z.store(tw.exp2(x.load_like(z), ftz=n > 0))


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32), 3)
