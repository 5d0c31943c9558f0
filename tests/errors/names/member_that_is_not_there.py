"""An enum has the members that its class says."""

import enum

import tilewright as tw
from tilewright import Mut, i32
from tilewright.dims import B


class Mode(enum.IntEnum):
    FAST = 1
    SLOW = 2


@tw.kernel
def fill(z: Mut[i32, B]) -> None:
    z.store(tw.full((B,), Mode.FASTER, i32))


fill(tw.zeros((256,), i32).partition(128))
