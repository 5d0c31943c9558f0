"""A Ref is equal for all, the place in it is not."""

import tilewright as tw
from tilewright import Mapped, Ref, f32, i32
from tilewright.dims import B, N


@tw.kernel
def fill(z: Mapped[f32, B], starts: Ref[i32, N]) -> None:
    start = starts.partition(1)[tw.block_id(0)].item()
    for at in z.indices_within((start, 8)):
        z.store(tw.zeros((B,), f32), at)


fill(tw.zeros((256,), f32).partition(16).persistent(), tw.zeros((256,), i32))
