"""A tensor that is read is cut in the kernel."""

import tilewright as tw
from tilewright import Cut, Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, Cut[N, B]]) -> None:
    z.store(x.load_like(z))
