"""A part has the rank of the tile."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(tw.insert(x.load_like(z), tw.zeros((1, 2), f32), 0))


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
