"""Kernels with unsafe code, for the tests of `tilewright check` and `tilewright explain`."""

import tilewright as tw
from tilewright import Const, Mapped, Mut, Ptr, Ref, f32, i32
from tilewright.dims import BM, BN, B, K, M, N


def tile_at(xs, n):
    with tw.unsafe("callers pass the number of a tile"):
        return xs.load_unchecked(n)


@tw.kernel
def safe(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(x.load_like(z))


@tw.kernel
def through_a_helper(z: Mut[f32, B], x: Ref[f32, N], n: i32) -> None:
    z.store(tile_at(x.partition(B), n))


@tw.kernel(unsafe=True)
def permute_heads(dst: Ptr[f32], src: Ref[f32, M, N], *, HEADS: Const[int] = 4) -> None:
    """Heads and rows are swapped in the place that is written: blocks meet."""
    head, row = tw.block_id(0), tw.block_id(1)
    tile = src.partition(1, 16)[head, row]
    with tw.unsafe("it is not: two blocks write to one place"):
        tw.store(dst + head % 2 * 16 + tw.arange(16), tile.reshape(16))


@tw.kernel
def residual(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[i32, K]) -> None:
    z.store(x.partition(B)[ids.partition(1)[0].item()])


@tw.kernel
def unset(z: Mapped[f32, BM, BN], *, STEP: Const[int]) -> None:
    with tw.unsafe("never compiled here"):
        tw.assume(STEP > 0)
    for at in z.indices():
        z.store(tw.zeros((BM, BN), f32), at)
