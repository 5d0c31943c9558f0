"""A Ref is seen whole anyway: its extents have names."""

import tilewright as tw
from tilewright import All, Mut, Ref, f32
from tilewright.dims import B


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, All]) -> None:
    z.store(x.load_like(z))
