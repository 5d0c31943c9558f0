"""The first argument of an annotation is a dtype."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[N, f32]) -> None:
    z.store(x.load_like(z))
