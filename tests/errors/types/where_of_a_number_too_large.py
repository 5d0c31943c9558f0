"""Two numbers take the dtype of the output, and must fit it as a literal must."""

import tilewright as tw
from tilewright import Mut, Ref, f32, i8
from tilewright.dims import B, N


@tw.kernel
def flags(z: Mut[i8, B], x: Ref[f32, N]) -> None:
    z.store(tw.where(x.load_like(z) > 0, 300, 0))


flags(tw.zeros((256,), i8).partition(128), tw.zeros((256,), f32))
