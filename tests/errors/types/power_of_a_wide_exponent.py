"""A float is raised to its own dtype or to a 32-bit integer."""

import tilewright as tw
from tilewright import Mut, Ref, f32, u32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N], n: u32) -> None:
    z.store(x.load_like(z) ** n)


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32), 3)
