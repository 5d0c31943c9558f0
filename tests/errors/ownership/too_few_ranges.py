"""Each axis has its range, if it is only None."""

import tilewright as tw
from tilewright import Mapped, f32
from tilewright.dims import BM, BN


@tw.kernel
def fill(z: Mapped[f32, BM, BN]) -> None:
    for at in z.indices_within((0, 2)):
        z.store(tw.zeros((BM, BN), f32), at)


fill(tw.zeros((64, 64), f32).partition(16, 16).persistent())
