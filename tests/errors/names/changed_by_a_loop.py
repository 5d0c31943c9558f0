"""A loop hands on tiles and numbers: what was `None` before the loop cannot become a tile in it."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    largest = None
    for i in range(x.partition(B).num_tiles(0)):
        t = x.partition(B)[i]
        largest = t if largest is None else tw.maximum(largest, t)
    z.store(largest)


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
