"""A hint that the assembler would drop."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel(num_ctas=3)
def copy(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(x.load_like(z))
