"""Tensors are made outside."""

import tilewright as tw
from tilewright import Mut, f32
from tilewright.dims import B


@tw.kernel
def noise(z: Mut[f32, B]) -> None:
    z.store(tw.randn((B,), f32))


noise(tw.zeros((256,), f32).partition(128))
