"""Methods that tiles and tensors have elsewhere."""

import tilewright as tw
from tilewright import Mut, Ref, f16, f32
from tilewright.dims import B, N


@tw.kernel
def convert(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    t = x.load_like(z)
    a = t.to(f16)
    b = t.sum()
    c = t.unsqueeze(1)
    d = t[:8]
    e = x.size(0)
    f = t.nothing_like_it()


convert(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32))
