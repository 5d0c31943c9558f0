"""The index of one walk is no range of another."""

import tilewright as tw
from tilewright import Mapped, f32
from tilewright.dims import B


@tw.kernel
def fill(y: Mapped[f32, B], z: Mapped[f32, B]) -> None:
    for place in y.indices():
        for at in z.indices_within((place[0], place[0] + 1)):
            z.store(tw.zeros((B,), f32), at)


fill(
    tw.zeros((256,), f32).partition(16).persistent(),
    tw.zeros((256,), f32).partition(16).persistent(),
)
