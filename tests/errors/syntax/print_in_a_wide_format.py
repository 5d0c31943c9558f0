"""A number is printed in at most 999 characters."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    print(f"{N:4096d}")
    print(f"{B:4096d}")
    print(f"{z.load():.1000f}")
    z.store(x.load_like(z))


scale(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
