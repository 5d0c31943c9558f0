"""A dataclass that a launch passes holds scalars."""

from dataclasses import dataclass

import tilewright as tw
from tilewright import Mut, f32
from tilewright.dims import B


@dataclass
class Config:
    scale: f32
    steps: list[int]


@tw.kernel
def scale(z: Mut[f32, B], config: Config) -> None:
    z.store(tw.full((B,), config.scale, f32))
