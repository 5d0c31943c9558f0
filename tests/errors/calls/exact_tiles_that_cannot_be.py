"""Tiles that never divide a fixed extent are not exact."""

from typing import Literal

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B


@tw.kernel
def copy(z: Mut[f32, B], x: Ref[f32, Literal[200]]) -> None:
    z.store(x.partition(B, exact=True)[z.index[0]])


copy(tw.zeros((200,), f32).partition(128), tw.zeros((200,), f32))
