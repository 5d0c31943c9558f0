"""A piece of a walk ends with its loop."""

import tilewright as tw
from tilewright import Mapped, f32
from tilewright.dims import B


@tw.kernel
def fill(z: Mapped[f32, B]) -> None:
    for at in z.indices():
        piece = z.piece(at)
    piece.store(tw.zeros((B,), f32))


fill(tw.zeros((256,), f32).partition(16).persistent())
