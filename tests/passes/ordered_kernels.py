"""Kernels that read what they write: in a straight line, in walks, loops and branches."""

import tilewright as tw
from tilewright import Mapped, Mut, Ref, i32
from tilewright.dims import B, M, N

__all__ = ["branched", "in_place", "left_early", "repeated", "walked"]


@tw.kernel
def in_place(z: Mut[i32, B], x: Ref[i32, N]) -> None:
    z.store(z.load() + x.load_like(z))
    z.store(z.load() * 2)


@tw.kernel
def walked(z: Mapped[i32, B], x: Ref[i32, N]) -> None:
    xs = x.partition(B)
    for at in z.indices():
        if at[0] < xs.num_tiles(0):
            z.store(z.load(at) + xs[at[0]], at)


@tw.kernel
def repeated(z: Mut[i32, B], x: Ref[i32, N], n: i32) -> None:
    for _ in range(n):
        z.store(z.load() + x.load_like(z))


@tw.kernel
def left_early(z: Mut[i32, B], x: Ref[i32, N], n: i32) -> None:
    i = 0
    while True:
        i += 1
        if i > n:
            break
        z.store(x.load_like(z))
    z.store(z.load() + 1)


@tw.kernel
def branched(z: Mut[i32, B], w: Mut[i32, B], x: Ref[i32, N], ids: Ref[i32, M]) -> None:
    if ids.partition(1)[0].item() > 0:
        z.store(x.load_like(z))
    z.store(z.load() + 1)
    w.store(x.load_like(z))
