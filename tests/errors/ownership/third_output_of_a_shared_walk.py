"""An index is good for the outputs that share the walk, and for no other."""

import tilewright as tw
from tilewright import Mapped, f32
from tilewright.dims import B


@tw.kernel
def fill(a: Mapped[f32, B], b: Mapped[f32, B], c: Mapped[f32, B]) -> None:
    for at in a.indices_with(b):
        c.store(tw.zeros((B,), f32), at)


fill(
    tw.zeros((256,), f32).partition(16).persistent(),
    tw.zeros((256,), f32).partition(16).persistent(),
    tw.zeros((256,), f32).partition(16).persistent(),
)
