"""Parts are numbered, not elements."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    t = x.load_like(z)
    z.store(t + tw.sum(tw.extract(t, 4, 32)))


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
