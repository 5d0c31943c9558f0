"""A branch cannot choose between two indices."""

import tilewright as tw
from tilewright import Mapped, Ref, f32, i32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mapped[f32, B], x: Ref[f32, N], n: i32) -> None:
    for at in z.indices():
        for other in z.indices():
            place = at if n > 0 else other
            z.store(x.partition(B)[0], place)


scale(tw.zeros((256,), f32).partition(128).persistent(), tw.zeros((256,), f32), 1)
