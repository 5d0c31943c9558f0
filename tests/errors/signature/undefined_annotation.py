"""An annotation that names nothing."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B


@tw.kernel
def scale(z: Mut[f32, B], x: "Ref[f32, WIDTH]") -> None:
    z.store(x.load_like(z))
