"""f8e8m0fnu has no zero."""

import tilewright as tw
from tilewright import Mut, Ref, f8e8m0fnu, f32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(x.load_like(z) + tw.zeros((B,), f8e8m0fnu).astype(f32))


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
