"""i4 is packed and unpacked, not computed with."""

import tilewright as tw
from tilewright import Mut, Ref, i4, i32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[i32, B], x: Ref[i32, N]) -> None:
    z.store((-x.load_like(z).astype(i4)).astype(i32))


scale(tw.zeros((256,), i32).partition(128), tw.zeros((256,), i32))
