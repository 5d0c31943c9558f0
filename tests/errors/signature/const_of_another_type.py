"""What a kernel can be compiled for."""

import tilewright as tw
from tilewright import Const, Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N], *, mode: Const[bytes]) -> None:
    z.store(x.load_like(z))
