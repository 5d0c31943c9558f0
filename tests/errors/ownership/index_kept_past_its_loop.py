"""An index is valid inside the loop that minted it."""

import tilewright as tw
from tilewright import Mapped, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mapped[f32, B], x: Ref[f32, N]) -> None:
    at = 0
    for at in z.indices():
        pass
    z.store(x.partition(B)[0], at)


scale(tw.zeros((256,), f32).partition(128).persistent(), tw.zeros((256,), f32))
