"""A launch cannot know what memory holds."""

import tilewright as tw
from tilewright import Mut, Ref, f32, i32
from tilewright.dims import B, M, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[i32, M]) -> None:
    tw.require(ids.partition(1)[0].item() > 0)
    z.store(x.load_like(z))


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32), tw.zeros((2,), tw.i32))
