"""How far a block came is its own number."""

import tilewright as tw
from tilewright import Mapped, f32
from tilewright.dims import B


@tw.kernel
def fill(z: Mapped[f32, B]) -> None:
    start = 0
    while start < 8:
        if tw.block_id(0) == start:
            break
        start += 1
    for at in z.indices_within((start, 16)):
        z.store(tw.zeros((B,), f32), at)


fill(tw.zeros((256,), f32).partition(16).persistent())
