"""A loop hands a tuple on member by member, and no partition."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    state = x.partition(B), x.load_like(z)
    for _ in range(4):
        state = state[0], state[1] * 2
    z.store(state[1])


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
