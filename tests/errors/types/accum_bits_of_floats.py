"""Bits are those of integers."""

import tilewright as tw
from tilewright import Accum, Mut, Ref, f32, i32
from tilewright.dims import B, N


@tw.kernel
def flip(done: Mut[i32, B], total: Accum[f32, N], x: Ref[f32, N]) -> None:
    total.xor(x.load_like(done), done.index[0])


flip(tw.zeros((256,), i32).partition(128), tw.zeros((256,), f32), tw.ones((256,), f32))
