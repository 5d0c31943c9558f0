"""Padding has the dtype of the tensor."""

import tilewright as tw
from tilewright import Mut, Ref, f32, i32
from tilewright.dims import B, N


@tw.kernel
def read(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    at = tw.arange(B, i32)
    z.store(x.gather(at, padding=at))


read(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
