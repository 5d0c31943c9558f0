"""Kernels with unsafe code, for the tests of `tilewright check` and `tilewright explain`."""

import tilewright as tw
from tilewright import Const, Mapped, Mut, Ptr, Ref, f32, i32
from tilewright.dims import BM, BN, B, D, H, K, M, N


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
def permute_heads(dst: Ptr[f32], src: Ref[f32, H, M, D]) -> None:
    """The place that is written does not depend on the head that is read."""
    h1, h2 = tw.block_id(0), tw.block_id(1)
    tiles = src.partition(1, 1, 16)
    with tw.unsafe("it is not: m and h2 are the wrong way round"):
        for m in range(tiles.num_tiles(1)):
            at = (m * H + h2) * 16 + tw.arange(16)
            tw.store(dst + at, tiles[h1, m, 0].reshape(16))


@tw.kernel(unsafe=True)
def waits_for_ever(p: Ptr[i32]) -> None:
    with tw.unsafe("nobody sets it"):
        for _ in range(2_000_000_000):
            tw.atomic_add(p, 1)


@tw.kernel
def residual(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[i32, K]) -> None:
    z.store(x.partition(B)[ids.partition(1)[0].item()])


@tw.kernel
def unset(z: Mapped[f32, BM, BN], *, STEP: Const[int]) -> None:
    with tw.unsafe("never compiled here"):
        tw.assume(STEP > 0)
    for at in z.indices():
        z.store(tw.zeros((BM, BN), f32), at)
