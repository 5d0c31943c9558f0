"""An index ends with its walk, in a tuple too."""

import tilewright as tw
from tilewright import Mapped, f32
from tilewright.dims import B


@tw.kernel
def fill(z: Mapped[f32, B]) -> None:
    for at in z.indices():
        kept = (at, 1)
        z.store(tw.zeros((B,), f32), at)
    z.store(tw.zeros((B,), f32), kept[0])


fill(tw.zeros((256,), f32).partition(128).persistent(blocks=2))
