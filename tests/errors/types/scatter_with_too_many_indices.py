"""An element has an index for each axis."""

import tilewright as tw
from tilewright import Mut, Ref, f32, i32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N], at: Ref[i32, N]) -> None:
    t, places = x.load_like(z), at.load_like(z)
    z.scatter(t, places, 0)


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32), tw.zeros((256,), i32))
