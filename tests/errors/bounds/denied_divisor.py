"""A divisor read from memory can only be checked inside the kernel."""

import tilewright as tw
from tilewright import Mut, Ref, f32, i32
from tilewright.dims import B, M, N


@tw.kernel(deny_checks=True)
def scale(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[i32, M]) -> None:
    n = ids.partition(1)[z.index[0]].item()
    z.store(x.load_like(z) * (100 // n).astype(f32))


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32), tw.zeros((2,), tw.i32))
