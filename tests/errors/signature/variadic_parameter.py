"""A kernel has a fixed number of parameters."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], *xs: Ref[f32, N]) -> None:
    z.store(x.load_like(z))
