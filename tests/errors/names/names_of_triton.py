"""Functions of Triton, and what they are called here."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def add(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    i = tl.program_id(0) * 128 + tl.arange(0, 128)
    t = tl.load(x + i, mask=i < N)
    u = tw.program_id(0)
    w = tl.dot(t, t)
    tl.atomic_add(x, t)
    tl.store(z, t)


add(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
