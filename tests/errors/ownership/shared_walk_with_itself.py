"""An output cannot be its own partner."""

import tilewright as tw
from tilewright import Mapped, f32
from tilewright.dims import B


@tw.kernel
def fill(a: Mapped[f32, B]) -> None:
    for at in a.indices_with(a):
        a.store(tw.zeros((B,), f32), at)


fill(tw.zeros((256,), f32).partition(16).persistent())
