"""A sort is a network, and its code grows with the axis."""

import tilewright as tw
from tilewright import Mut, Ref, f32, i32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N], at: Ref[i32, N]) -> None:
    t, places = x.load_like(z), at.load_like(z)
    z.store(t + tw.max(tw.sort(tw.arange(4096))).astype(f32) + places.astype(f32))


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32), tw.zeros((256,), i32))
