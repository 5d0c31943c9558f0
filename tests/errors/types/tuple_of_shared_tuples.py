"""A tuple in a tuple counts with its members, wherever it stands."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N

PAIRS = (1, 2)
for _ in range(40):
    PAIRS = (PAIRS, PAIRS)


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    p = (N, B)
    for _ in tw.static_range(40):
        p = (p, p)
    q = PAIRS
    z.store(x.load_like(z))


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
