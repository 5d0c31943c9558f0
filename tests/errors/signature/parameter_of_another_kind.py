"""A parameter is a tensor, a constant or a scalar."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N], n: int) -> None:
    z.store(x.load_like(z))
