"""An index ends with its walk, even if the walk is left by a `return`."""

import tilewright as tw
from tilewright import Mapped, f32
from tilewright.dims import B


def first(z):
    while True:
        for at in z.indices():
            return at


@tw.kernel
def fill(z: Mapped[f32, B]) -> None:
    z.store(tw.zeros((B,), f32), first(z))


fill(tw.zeros((256,), f32).partition(128).persistent(blocks=2))
