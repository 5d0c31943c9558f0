"""Our kernels as the benchmarks launch them: plain functions, so that one body gets several hints.

The checked products multiply what the unchecked ones do. In `…_shifted` the index of the sum is
moved by a number read once, before the loop, so that next to nothing but the check differs; in
`…_listed` every index is read from a table, as in a real gather.
"""

# ruff: noqa: N803 (constants of a kernel are upper case)

from __future__ import annotations

import tilewright as tw
from tilewright import Const, Mapped, Mut, Ref, f32, i32
from tilewright.dims import BM, BN, B, K, M, N, P, T

__all__ = [
    "add",
    "gemm",
    "gemm_listed",
    "gemm_shifted",
    "walked",
    "walked_listed",
    "walked_shifted",
]


def add(z: Mut[T, B], x: Ref[T, N], y: Ref[T, N]) -> None:
    z.store(x.load_like(z) + y.load_like(z))


def gemm(z: Mut[T, BM, BN], x: Ref[T, M, K], y: Ref[T, K, N], *, BK: Const[int] = 64) -> None:
    xs, ys = x.partition(BM, BK), y.partition(BK, BN)
    i, j = z.index
    acc = tw.zeros((BM, BN), f32)
    for k in range(xs.num_tiles(1)):
        acc = tw.mma(xs[i, k], ys[k, j], acc)
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
