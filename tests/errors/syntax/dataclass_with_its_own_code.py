"""Instances are put together from their fields; no code of the class runs."""

from dataclasses import dataclass

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


@dataclass
class State:
    total: float

    def __post_init__(self):
        self.total += 1


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    state = State(2.0)
    z.store(x.load_like(z) * state.total)


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
