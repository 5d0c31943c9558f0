"""A store to a `Mapped` says where."""

import tilewright as tw
from tilewright import Mapped, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mapped[f32, B], x: Ref[f32, N]) -> None:
    for at in z.indices():
        z.store(x.partition(B)[at])


scale(tw.zeros((256,), f32).partition(128).persistent(), tw.zeros((256,), f32))
