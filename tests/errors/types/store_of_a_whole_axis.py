"""An axis of any extent is written in parts."""

import tilewright as tw
from tilewright import All, Mut, f32


@tw.kernel
def scale(z: Mut[f32, 1, All]) -> None:
    z.store(z.load() * 2)


scale(tw.zeros((8, 192), f32).partition(1, None))
