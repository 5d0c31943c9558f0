"""A suggestion is a slip of the keys away: `airy` is no `Mapped`, and `ref` no `Ref`."""

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel
def special(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    a = tw.airy(x.load_like(z))
    b = tw.fer(x.load_like(z))
    c = tw.rsqtr(x.load_like(z))
    d = ref(x)


special(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
