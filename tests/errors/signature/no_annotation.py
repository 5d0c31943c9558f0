"""Every parameter says what it is."""

import tilewright as tw
from tilewright import Mut, f32
from tilewright.dims import B


@tw.kernel
def scale(z: Mut[f32, B], x) -> None:
    z.store(x.load_like(z))
