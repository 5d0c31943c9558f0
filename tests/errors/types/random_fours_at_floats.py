"""Places are counted in integers."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    one, _, _, _ = tw.rand4x(x.load_like(z), f32)
    z.store(one)


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
