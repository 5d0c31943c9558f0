"""A piece is taken at an index of its own walk."""

import tilewright as tw
from tilewright import Mapped, f32
from tilewright.dims import B


@tw.kernel
def fill(a: Mapped[f32, B], b: Mapped[f32, B]) -> None:
    for at in a.indices():
        b.piece(at).store(tw.zeros((B,), f32))


fill(
    tw.zeros((256,), f32).partition(16).persistent(),
    tw.zeros((256,), f32).partition(16).persistent(),
)
