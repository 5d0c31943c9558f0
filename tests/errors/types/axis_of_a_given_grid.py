"""The grid that the call gives has as many axes as it gives."""

import tilewright as tw
from tilewright import Mut, i32
from tilewright.dims import B


@tw.kernel
def number(z: Mut[i32, B]) -> None:
    z.store(tw.full((B,), tw.block_id(1), i32))


number.grid(2)(tw.zeros((512,), i32).partition(128, prefix=True))
