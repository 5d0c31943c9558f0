"""Pairs of 4-bit numbers are kept in bytes."""

import tilewright as tw
from tilewright import Mut, Ref, f4e2m1fn, f32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f4e2m1fn, N]) -> None:
    z.store(x.load_like(z).astype(f32))
