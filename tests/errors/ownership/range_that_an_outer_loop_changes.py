"""Each turn would deal the tiles out anew."""

import tilewright as tw
from tilewright import Mapped, f32
from tilewright.dims import B


@tw.kernel
def fill(z: Mapped[f32, B]) -> None:
    for turn in range(4):
        for at in z.indices_within((turn, 8)):
            z.store(tw.zeros((B,), f32), at)


fill(tw.zeros((256,), f32).partition(16).persistent())
