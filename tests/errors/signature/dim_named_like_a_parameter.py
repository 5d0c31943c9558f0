"""A dim is a name of the body."""

import tilewright as tw
from tilewright import Mut, Ref, f32, i32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N], N: i32) -> None:
    z.store(x.load_like(z))
