"""A range is a pair of ends."""

import tilewright as tw
from tilewright import Mapped, f32
from tilewright.dims import B


@tw.kernel
def fill(z: Mapped[f32, B]) -> None:
    for at in z.indices_within(4):
        z.store(tw.zeros((B,), f32), at)


fill(tw.zeros((256,), f32).partition(16).persistent())
