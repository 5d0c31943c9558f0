"""Elements are numbered by integers."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def read(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(x.gather(x.load_like(z)))


read(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
