"""`load_like` reads at the place of the piece, axis by axis."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, M, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, M, N]) -> None:
    z.store(x.load_like(z))


scale(tw.zeros((256,), f32).partition(128), tw.zeros((2, 256), f32))
