"""Our kernels for the benchmarks: plain functions, so that one body can have several hints.

The checked products compute the same as the unchecked ones. In `…_shifted` the index of the sum is
shifted by a number read once, before the loop, so that only the check differs; in `…_listed` every
index is read from a table, as in a real gather. In `…_whole` tiles cover a tensor exactly, which
the launch checks, so no access has a mask. An `…_unchecked` kernel is its safe twin without any
proof: every index is trusted.
"""

# ruff: noqa: N803 (constants of a kernel are upper case)

from __future__ import annotations

from typing import Literal

import tilewright as tw
from tilewright import Const, Mapped, Mut, Ptr, Ref, f32, i32
from tilewright.dims import BM, BN, B, D, H, K, M, N, P, T

__all__ = [
    "add",
    "add_unchecked",
    "add_whole",
    "add_whole_unchecked",
    "gemm",
    "gemm_listed",
    "gemm_shifted",
    "gemm_unchecked",
    "permute_racing",
    "permute_swapped",
    "permute_trusted",
    "walked",
    "walked_listed",
    "walked_shifted",
    "walked_unchecked",
]


def add(z: Mut[T, B], x: Ref[T, N], y: Ref[T, N]) -> None:
    z.store(x.load_like(z) + y.load_like(z))


def add_unchecked(z: Mut[T, B], x: Ref[T, N], y: Ref[T, N]) -> None:
    xs, ys = x.partition(B), y.partition(B)
    with tw.unsafe("a twin to measure with: all three have one shape"):
        z.store(xs.load_unchecked(z.index[0]) + ys.load_unchecked(z.index[0]))


def add_whole(z: Mut[T, B], x: Ref[T, N], y: Ref[T, N]) -> None:
    tw.require(z.shape[0] == N)
    i = z.index[0]
    xs, ys = x.partition(B, exact=True), y.partition(B, exact=True)
    z.partition(B, exact=True).store(xs[i] + ys[i], 0)


def add_whole_unchecked(z: Mut[T, B], x: Ref[T, N], y: Ref[T, N]) -> None:
    i = z.index[0]
    xs, ys = x.partition(B, exact=True), y.partition(B, exact=True)
    with tw.unsafe("a twin to measure with: all three have one shape"):
        z.partition(B, exact=True).store(xs.load_unchecked(i) + ys.load_unchecked(i), 0)


def gemm(z: Mut[T, BM, BN], x: Ref[T, M, K], y: Ref[T, K, N], *, BK: Const[int] = 64) -> None:
    xs, ys = x.partition(BM, BK), y.partition(BK, BN)
    i, j = z.index
    acc = tw.zeros((BM, BN), f32)
    for k in range(xs.num_tiles(1)):
        acc = tw.mma(xs[i, k], ys[k, j], acc)
    z.store(acc.astype(z.dtype))


def gemm_unchecked(
    z: Mut[T, BM, BN], x: Ref[T, M, K], y: Ref[T, K, N], *, BK: Const[int] = 64
) -> None:
    xs, ys = x.partition(BM, BK), y.partition(BK, BN)
    i, j = z.index
    acc = tw.zeros((BM, BN), f32)
    for k in range(xs.num_tiles(1)):
        with tw.unsafe("a twin to measure with: the shapes fit"):
            acc = tw.mma(xs.load_unchecked(i, k), ys.load_unchecked(k, j), acc)
    z.store(acc.astype(z.dtype))


def gemm_shifted(
    z: Mut[T, BM, BN], x: Ref[T, M, K], y: Ref[T, K, N], ks: Ref[i32, P], *, BK: Const[int] = 64
) -> None:
    xs, ys = x.partition(BM, BK), y.partition(BK, BN)
    i, j = z.index
    shift = ks.partition(1)[0].item()
    acc = tw.zeros((BM, BN), f32)
    for k in range(xs.num_tiles(1)):
        acc = tw.mma(xs[i, k + shift], ys[k + shift, j], acc)
    z.store(acc.astype(z.dtype))


def gemm_listed(
    z: Mut[T, BM, BN], x: Ref[T, M, K], y: Ref[T, K, N], ks: Ref[i32, P], *, BK: Const[int] = 64
) -> None:
    xs, ys, steps = x.partition(BM, BK), y.partition(BK, BN), ks.partition(1)
    i, j = z.index
    acc = tw.zeros((BM, BN), f32)
    for step in range(steps.num_tiles(0)):
        k = steps[step].item()
        acc = tw.mma(xs[i, k], ys[k, j], acc)
    z.store(acc.astype(z.dtype))


def walked(z: Mapped[T, BM, BN], x: Ref[T, M, K], y: Ref[T, K, N], *, BK: Const[int] = 64) -> None:
    xs, ys = x.partition(BM, BK), y.partition(BK, BN)
    for at in z.indices():
        i, j = at
        acc = tw.zeros((BM, BN), f32)
        for k in range(xs.num_tiles(1)):
            acc = tw.mma(xs[i, k], ys[k, j], acc)
        z.store(acc.astype(z.dtype), at)


def walked_unchecked(
    z: Mapped[T, BM, BN], x: Ref[T, M, K], y: Ref[T, K, N], *, BK: Const[int] = 64
) -> None:
    xs, ys = x.partition(BM, BK), y.partition(BK, BN)
    for at in z.indices():
        i, j = at
        acc = tw.zeros((BM, BN), f32)
        for k in range(xs.num_tiles(1)):
            with tw.unsafe("a twin to measure with: the shapes fit"):
                acc = tw.mma(xs.load_unchecked(i, k), ys.load_unchecked(k, j), acc)
        z.store(acc.astype(z.dtype), at)


def walked_shifted(
    z: Mapped[T, BM, BN], x: Ref[T, M, K], y: Ref[T, K, N], ks: Ref[i32, P], *, BK: Const[int] = 64
) -> None:
    xs, ys = x.partition(BM, BK), y.partition(BK, BN)
    shift = ks.partition(1)[0].item()
    for at in z.indices():
        i, j = at
        acc = tw.zeros((BM, BN), f32)
        for k in range(xs.num_tiles(1)):
            acc = tw.mma(xs[i, k + shift], ys[k + shift, j], acc)
        z.store(acc.astype(z.dtype), at)


def walked_listed(
    z: Mapped[T, BM, BN], x: Ref[T, M, K], y: Ref[T, K, N], ks: Ref[i32, P], *, BK: Const[int] = 64
) -> None:
    xs, ys, steps = x.partition(BM, BK), y.partition(BK, BN), ks.partition(1)
    for at in z.indices():
        i, j = at
        acc = tw.zeros((BM, BN), f32)
        for step in range(steps.num_tiles(0)):
            k = steps[step].item()
            acc = tw.mma(xs[i, k], ys[k, j], acc)
        z.store(acc.astype(z.dtype), at)


# --- wrong on purpose -----------------------------------------------------------------------------


def permute_racing(dst: Mut[f32, Literal[1], Literal[1], BM, D], src: Ref[f32, B, H, M, D]) -> None:
    """The paper's bug: rows and heads swapped in the index of the store."""
    b, h1, h2, _ = dst.index
    tiles = src.partition(1, 1, BM, D)
    for m in range(tiles.num_tiles(2)):
        dst.store(tiles[b, h1, m, 0], b, m, h2, 0)  # type: ignore[call-arg]


def permute_swapped(
    dst: Mut[f32, Literal[1], Literal[1], BM, D], src: Ref[f32, B, H, M, D]
) -> None:
    """The swapped indices in a load, where they cannot race."""
    b, h, m, _ = dst.index
    dst.store(src.partition(1, 1, BM, D)[b, m, h, 0])


def permute_trusted(
    dst: Ptr[f32], src: Ref[f32, B, H, M, D], *, BM: Const[int], D: Const[int]
) -> None:
    """The swapped store through unchecked pointers: it compiles."""
    b, h1, h2 = tw.block_id(0) // H, tw.block_id(0) % H, tw.block_id(1)
    tiles = src.partition(1, 1, BM, D)
    at = tw.arange(BM)[:, None] * D + tw.arange(D)
    for m in range(tiles.num_tiles(2)):
        with tw.unsafe("it is not: rows and heads are the wrong way round"):
            place = ((b * H + m) * M + h2 * BM) * D + at
            tw.store(dst + place, tiles[b, h1, m, 0].reshape(BM, D))
