"""Without an output nothing says how many blocks run."""

import tilewright as tw
from tilewright import Ref, f32
from tilewright.dims import N


@tw.kernel
def scale(x: Ref[f32, N]) -> None:
    t = x.partition(128)[0]


scale(tw.ones((128,), f32))
