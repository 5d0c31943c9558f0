"""A piece of 128 has four parts of 32."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.partition(32).store(tw.zeros((32,), f32), 4)


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
