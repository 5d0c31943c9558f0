"""A scalar of NumPy that is no number of kernels."""

import numpy as np

import tilewright as tw
from tilewright import Mut, f32
from tilewright.dims import B

ROOT = np.complex64(1j)


@tw.kernel
def fill(z: Mut[f32, B]) -> None:
    z.store(tw.full((B,), ROOT, f32))


fill(tw.zeros((256,), f32).partition(128))
