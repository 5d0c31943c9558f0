"""A type parameter is a dim or a dtype."""

from typing import TypeVar

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import N

ROWS = TypeVar("ROWS")


@tw.kernel
def scale(z: Mut[f32, ROWS], x: Ref[f32, N]) -> None:
    z.store(x.load_like(z))
