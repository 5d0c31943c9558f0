"""A kernel that chose the place of its store could race; this one swaps two axes of it."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import BM, BN, M, N


@tw.kernel
def permute_heads(z: Mut[f32, BM, BN], x: Ref[f32, M, N]) -> None:
    head, row = z.index
    z.store(x.partition(BM, BN)[row, head], row, head)


permute_heads(tw.zeros((64, 64), f32).partition(16, 16), tw.zeros((64, 64), f32))
