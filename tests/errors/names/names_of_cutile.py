"""Functions of cuTile Python, and what they are called here."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def add(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    i = ct.bid(0)
    t = ct.load(x, index=(i,), shape=(128,))
    u = tw.bid(0)
    ct.store(z, index=(i,), tile=t)


add(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
