"""A number that a loop hands on is another one at every turn."""

import tilewright as tw
from tilewright import Mapped, f32, i32
from tilewright.dims import B


@tw.kernel
def fill(z: Mapped[f32, B], n: i32) -> None:
    start = n
    for turn in range(4):
        for at in z.indices_within((start, 8)):
            z.store(tw.zeros((B,), f32), at)
        start = start + 1


fill(tw.zeros((256,), f32).partition(16).persistent(), 0)
