"""An index of one grid is none of another."""

import tilewright as tw
from tilewright import Mapped, f32
from tilewright.dims import B


@tw.kernel
def fill(a: Mapped[f32, B], b: Mapped[f32, 32]) -> None:
    for at in a.indices_with(b):
        a.store(tw.zeros((B,), f32), at)


fill(
    tw.zeros((256,), f32).partition(16).persistent(),
    tw.zeros((256,), f32).partition(32).persistent(),
)
