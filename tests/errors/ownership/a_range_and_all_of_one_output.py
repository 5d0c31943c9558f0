"""All of an output is another range than a part of it."""

import tilewright as tw
from tilewright import Mapped, f32, i32
from tilewright.dims import B


@tw.kernel
def fill(y: Mapped[f32, B], z: Mapped[f32, B], n: i32) -> None:
    for at in z.indices_within((0, n)):
        z.store(tw.zeros((B,), f32), at)
    for at in y.indices_with(z):
        z.store(tw.ones((B,), f32), at)


fill(
    tw.zeros((256,), f32).partition(16).persistent(),
    tw.zeros((256,), f32).partition(16).persistent(),
    4,
)
