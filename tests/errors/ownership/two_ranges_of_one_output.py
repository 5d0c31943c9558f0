"""Two halves of one output, each dealt out from its own start."""

import tilewright as tw
from tilewright import Mapped, f32, i32
from tilewright.dims import B


@tw.kernel
def fill(z: Mapped[f32, B], n: i32) -> None:
    for at in z.indices_within((0, n)):
        z.store(tw.zeros((B,), f32), at)
    for at in z.indices_within((n, 16)):
        z.store(tw.ones((B,), f32), at)


fill(tw.zeros((256,), f32).partition(16).persistent(), 4)
