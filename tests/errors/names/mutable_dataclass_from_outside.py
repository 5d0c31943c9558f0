"""What could change after the kernel is compiled stays outside."""

from dataclasses import dataclass

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


@dataclass
class Setup:
    factor: float


SETUP = Setup(2.0)


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(x.load_like(z) * SETUP.factor)


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
