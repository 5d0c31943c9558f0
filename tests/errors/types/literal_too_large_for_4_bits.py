"""f4e2m1fn ends at 6."""

import tilewright as tw
from tilewright import Mut, Ref, f4e2m1fn, f32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(x.load_like(z) + tw.full((B,), 7.0, f4e2m1fn).astype(f32))


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
