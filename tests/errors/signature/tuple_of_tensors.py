"""A tuple that a launch passes holds scalars."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], xs: tuple[Ref[f32, N], f32]) -> None:
    z.store(xs[0].load_like(z))
