"""A seed is an integer."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(x.load_like(z) + tw.rand((B,), f32, seed=x.partition(1)[0].item()))


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
