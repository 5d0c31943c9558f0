"""A kernel whose annotations are text, as `from __future__ import annotations` makes them."""

from __future__ import annotations

import tilewright as tw
from tilewright import Const, Mut, Ref, f32, i32
from tilewright.dims import B, N


@tw.kernel
def shifted(z: Mut[f32, B], x: Ref[f32, N], n: i32, *, FACTOR: Const[int]) -> None:
    z.store(x.load_like(z) * FACTOR + n.astype(f32))
