"""A number of f64 takes two of the words of which `rand4x` makes four numbers."""

import tilewright as tw
from tilewright import Mut, Ref, f64
from tilewright.dims import B, N


@tw.kernel
def scale(z: Mut[f64, B], x: Ref[f64, N]) -> None:
    one, _, _, _ = tw.rand4x(tw.arange(B), f64)
    z.store(x.load_like(z) + one)


scale(tw.zeros((256,), f64).partition(128), tw.zeros((256,), f64))
