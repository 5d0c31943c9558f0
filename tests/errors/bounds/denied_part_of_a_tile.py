"""A number read on the device needs a check."""

import tilewright as tw
from tilewright import Mut, Ref, f32, i32
from tilewright.dims import B, N


@tw.kernel(deny_checks=True)
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    t = x.load_like(z)
    at = x.partition(1)[0].item().astype(i32)
    z.store(tw.insert(t, tw.zeros((32,), f32), at))


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
