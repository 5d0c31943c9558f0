"""Text that a kernel prints is UTF-8, and ends at a NUL."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    print("half of a pair: \ud83d")
    print(f"{N} rows\0")
    z.store(x.load_like(z))


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
