"""The place of a piece is another one in every block."""

import tilewright as tw
from tilewright import Mapped, Mut, f32
from tilewright.dims import B


@tw.kernel
def fill(y: Mut[f32, B], z: Mapped[f32, B]) -> None:
    (i,) = y.index
    for at in z.indices_within((i, 4)):
        z.store(tw.zeros((B,), f32), at)


fill(tw.zeros((256,), f32).partition(16), tw.zeros((256,), f32).partition(16).persistent())
