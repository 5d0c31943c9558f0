"""Outputs that are walked in different orders of their axes do not share a walk."""

import tilewright as tw
from tilewright import Mapped, f32
from tilewright.dims import BM, BN


@tw.kernel
def fill(a: Mapped[f32, BM, BN], b: Mapped[f32, BM, BN]) -> None:
    for at in a.indices_with(b):
        a.store(tw.zeros((BM, BN), f32), at)


fill(
    tw.zeros((64, 64), f32).partition(16, 16, order=(1, 0)).persistent(),
    tw.zeros((64, 64), f32).partition(16, 16).persistent(),
)
