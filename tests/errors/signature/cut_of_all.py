"""The first thing is an extent, which `All` does not say."""

import tilewright as tw
from tilewright import Cut, Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, Cut[tw.All, B]], x: Ref[f32, N]) -> None:
    z.store(x.load_like(z))
