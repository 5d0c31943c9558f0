"""What can change cannot be compiled in."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


class Config:
    factor = 2.0


config = Config()


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(x.load_like(z) * config.factor)


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
