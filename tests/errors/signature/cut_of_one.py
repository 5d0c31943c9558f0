"""Cut says two things."""

import tilewright as tw
from tilewright import Cut, Mut, Ref, f32
from tilewright.dims import N


@tw.kernel
def scale(z: Mut[f32, Cut[N]], x: Ref[f32, N]) -> None:
    z.store(x.load_like(z))
