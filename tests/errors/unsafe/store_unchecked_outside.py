"""A store at an unchecked place could hit another block."""

import tilewright as tw
from tilewright import Mut, Ref, f32, i32
from tilewright.dims import B, N


@tw.kernel
def k(z: Mut[f32, B], x: Ref[f32, N], n: i32) -> None:
    z.partition(32).store_unchecked(tw.zeros((32,), f32), n)


k(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32), 3)
