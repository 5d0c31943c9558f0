"""The loop of a walk keeps its index whole."""

import tilewright as tw
from tilewright import Mapped, Ref, f32
from tilewright.dims import BM, BN, M, N


@tw.kernel
def scale(z: Mapped[f32, BM, BN], x: Ref[f32, M, N]) -> None:
    for i, j in z.indices():
        pass


scale(tw.zeros((64, 64), f32).partition(16, 16).persistent(), tw.zeros((64, 64), f32))
