"""An index read from memory can only be checked inside the kernel."""

import tilewright as tw
from tilewright import Mut, Ref, f32, i32
from tilewright.dims import B, M, N


@tw.kernel(deny_checks=True)
def gather(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[i32, M]) -> None:
    i = ids.partition(1)[z.index[0]].item()
    z.store(x.partition(B)[i])


gather(tw.zeros((256,), f32).partition(128), tw.zeros((256,), f32), tw.zeros((2,), tw.i32))
