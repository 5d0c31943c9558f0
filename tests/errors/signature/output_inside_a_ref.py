"""An output is a parameter of its own: nothing refers to it."""

import tilewright as tw
from tilewright import Mapped, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Ref[Mapped[f32, B], N], x: Ref[f32, N]) -> None:
    z.store(x.load_like(z))
