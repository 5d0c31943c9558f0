"""The same number of bits."""

import tilewright as tw
from tilewright import Mut, Ref, f32, u64
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(tw.bitcast(x.load_like(z), u64).astype(f32))


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
