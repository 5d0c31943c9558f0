"""An index places tiles in the output whose walk minted it."""

import tilewright as tw
from tilewright import Mapped, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def scale(a: Mapped[f32, B], b: Mapped[f32, B], x: Ref[f32, N]) -> None:
    xs = x.partition(B)
    for at in a.indices():
        a.store(xs[at], at)
        b.store(xs[at], at)


scale(
    tw.zeros((256,), f32).partition(128).persistent(),
    tw.zeros((256,), f32).partition(128).persistent(),
    tw.zeros((256,), f32),
)
