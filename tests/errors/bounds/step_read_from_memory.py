"""A step that only the kernel knows may be zero."""

import tilewright as tw
from tilewright import Mut, Ref, i32
from tilewright.dims import B, N


@tw.kernel
def k(z: Mut[i32, B], steps: Ref[i32, N]) -> None:
    step = steps.partition(1)[0].item()
    total = 0
    for i in range(0, 10, step):
        total += i
    z.store(tw.full((B,), total, i32))


k(tw.zeros((4,), i32).partition(4), tw.zeros((4,), i32))
