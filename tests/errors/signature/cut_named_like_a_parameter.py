"""A name means one thing."""

import tilewright as tw
from tilewright import Cut, Mut, Ref, f32
from tilewright.dims import B, N


class x(tw.Dim): ...  # noqa: N801


@tw.kernel
def scale(z: Mut[f32, Cut[x, B]], x: Ref[f32, N]) -> None:
    z.store(x.load_like(z))
