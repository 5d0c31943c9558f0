"""A kernel of another compiler beside one of ours, for the tests of `tilewright check`."""

import tilewright as tw
from tilewright import Mut, f32
from tilewright.dims import B

PTX = b".version 8.0\n.target sm_90\n.visible .entry touch(.param .u64 z) { ret; }\n"


@tw.kernel
def clear(z: Mut[f32, B]) -> None:
    z.store(tw.zeros((B,), f32))


touch = tw.external.load(PTX).kernel(
    "touch", "reads and writes nothing: it returns at once", z=tw.external.InOut(f32)
)
