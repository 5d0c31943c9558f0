"""A tensor without axes is not cut."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B


@tw.kernel
def read(z: Mut[f32, B], x: Ref[f32]) -> None:
    z.store(x.partition()[()])


read(tw.zeros((256,), f32).partition(128), tw.zeros((), f32))
