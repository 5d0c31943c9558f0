"""A `Mut` has one piece for each block and no walk."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    for at in z.indices():
        z.store(x.load_like(z), at)


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
