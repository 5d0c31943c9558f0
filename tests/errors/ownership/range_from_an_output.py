"""What an output holds may be changing while blocks read it."""

import tilewright as tw
from tilewright import Mapped, Mut, f32, i32
from tilewright.dims import B


@tw.kernel
def fill(y: Mut[i32, 1], z: Mapped[f32, B]) -> None:
    n = y.load().item()
    for at in z.indices_within((0, n)):
        z.store(tw.zeros((B,), f32), at)


fill(tw.zeros((2,), i32).partition(1), tw.zeros((256,), f32).partition(16).persistent())
