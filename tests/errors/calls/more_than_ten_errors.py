"""After ten problems nobody reads on."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(missing_0)
    z.store(missing_1)
    z.store(missing_2)
    z.store(missing_3)
    z.store(missing_4)
    z.store(missing_5)
    z.store(missing_6)
    z.store(missing_7)
    z.store(missing_8)
    z.store(missing_9)
    z.store(missing_10)
    z.store(missing_11)


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
