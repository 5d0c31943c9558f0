"""A part that reached past the piece would belong to another block."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.partition(64).store(tw.zeros((64,), f32), 0)


scale(tw.zeros((192,), f32).partition(96), tw.zeros((192,), f32))
