"""A range that every block chooses for itself gives one tile to two blocks."""

import tilewright as tw
from tilewright import Mapped, f32
from tilewright.dims import B


@tw.kernel
def fill(z: Mapped[f32, B]) -> None:
    start = tw.block_id(0) * 2
    for at in z.indices_within((start, start + 4)):
        z.store(tw.zeros((B,), f32), at)


fill(tw.zeros((256,), f32).partition(16).persistent())
