"""`add[grid](…)` is how Triton launches."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def add(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(x.load_like(z))


add[(2,)](tw.zeros((256,), f32), tw.zeros((256,), f32))
