"""Text is made when the kernel is compiled."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    tw.static_assert(B > 1000, f"there are {N}")
    z.store(x.load_like(z))


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
