"""tf32 is an operand of mma."""

import tilewright as tw
from tilewright import Mut, Ref, f32, tf32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(tw.where(x.load_like(z).astype(tf32) > 0, 1, x.load_like(z)))


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
