"""Tiles are counted with integers."""

import tilewright as tw
from tilewright import Mapped, f32
from tilewright.dims import B


@tw.kernel
def fill(z: Mapped[f32, B], x: f32) -> None:
    for at in z.indices_within((0, x)):
        z.store(tw.zeros((B,), f32), at)


fill(tw.zeros((256,), f32).partition(16).persistent(), 1.0)
