"""A part of a piece at an unchecked place, with no block around it."""

import tilewright as tw
from tilewright import Mut, Ref, f32, i32
from tilewright.dims import B, N


@tw.kernel
def k(z: Mut[f32, B], x: Ref[f32, N], n: i32) -> None:
    p = z.partition(32)
    z.store(x.load_like(z) + tw.sum(p.load_unchecked(n)).item())


k(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32), 3)
