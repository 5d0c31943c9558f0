"""Segments end anywhere."""

import tilewright as tw
from tilewright import Mut, Ref, f32, i32
from tilewright.dims import B, N


@tw.kernel
def copy(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    parts = z.partition(B, whole=True)
    parts.store(x.partition(B)[0], 0)


offsets = tw.zeros((3,), i32)
copy(tw.zeros((256,), f32).partition(128, segments=offsets), tw.zeros((256,), f32))
