"""A place in this block's own piece is checked like any other."""

import tilewright as tw
from tilewright import Mut, Ref, f32, i32
from tilewright.dims import B, M


@tw.kernel(deny_checks=True)
def scale(z: Mut[f32, B], ids: Ref[i32, M]) -> None:
    parts = z.partition(32)
    i = ids.partition(1)[0].item()
    parts.store(tw.zeros((32,), f32), i)


scale(tw.zeros((256,), f32).partition(128), tw.zeros((2,), tw.i32))
