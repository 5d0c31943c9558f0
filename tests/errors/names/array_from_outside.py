"""An array is an argument of the launch, as a tensor."""

import numpy as np

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N

TABLE = np.ones(128, np.float32)


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(x.load_like(z) * TABLE)


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
