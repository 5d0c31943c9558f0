"""A member of a carried tuple keeps its type."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    state = x.load_like(z), 0
    for i in range(4):
        state = state[0], state[0]
    z.store(state[0])


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
