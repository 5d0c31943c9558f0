"""Nor are 8-bit floats summed."""

import tilewright as tw
from tilewright import Accum, Mut, Ref, f8e4m3fn, i32
from tilewright.dims import B, N


@tw.kernel
def total_of(done: Mut[i32, B], total: Accum[f8e4m3fn, N], x: Ref[f8e4m3fn, N]) -> None:
    total.add(x.load_like(done), done.index[0])


total_of(
    tw.zeros((256,), i32).partition(128), tw.zeros((256,), f8e4m3fn), tw.zeros((256,), f8e4m3fn)
)
