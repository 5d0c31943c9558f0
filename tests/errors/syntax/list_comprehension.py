"""A loop carries a value, or a tile does it all at once."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    tiles = [x.load_like(z) for _ in range(4)]


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
