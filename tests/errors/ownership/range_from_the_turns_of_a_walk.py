"""How many tiles a block has is its own number."""

import tilewright as tw
from tilewright import Mapped, f32
from tilewright.dims import B


@tw.kernel
def fill(y: Mapped[f32, B], z: Mapped[f32, B]) -> None:
    tiles = 0
    for at in y.indices():
        tiles += 1
    for at in z.indices_within((0, tiles)):
        z.store(tw.zeros((B,), f32), at)


fill(
    tw.zeros((256,), f32).partition(16).persistent(),
    tw.zeros((256,), f32).partition(16).persistent(),
)
