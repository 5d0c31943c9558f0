"""The kernels of the tour, written as a user would write them: public names only.

`permute_heads_racing` is wrong on purpose. It computes the index of its store, so two blocks could
write to one place; type checkers and tilewright both reject it, because a store takes no index.
"""

# ruff: noqa: N803 (static dims are upper case: BK)

from __future__ import annotations

import math
from typing import Literal

import tilewright as tw
from tilewright import Const, Cut, Mapped, Mut, Ref, f32, i32
from tilewright.dims import BM, BN, B, D, H, K, M, N, T

__all__ = [
    "add",
    "gemm",
    "gemm_persistent",
    "permute_heads",
    "permute_heads_racing",
    "pick_rows",
    "saxpy",
    "softmax",
]


@tw.kernel
def add(z: Mut[f32, Cut[N, B]], x: Ref[f32, N], y: Ref[f32, N]) -> None:
    """`z = x + y`, a block for each piece of z."""
    z.store(x.load_like(z) + y.load_like(z))


@tw.kernel
def saxpy(z: Mut[f32, Cut[N, B]], x: Ref[f32, N], y: Ref[f32, N], alpha: f32) -> None:
    """`z = alpha * x + y`."""
    z.store(alpha * x.load_like(z) + y.load_like(z))


@tw.kernel
def softmax(z: Mut[f32, Cut[M, B], Cut[N, D]], x: Ref[f32, M, N]) -> None:
    """Softmax of every row, read once; D is the number of columns, rounded up to a power of two."""
    rows = x.load_like(z, padding=-math.inf)
    powers = tw.exp(rows - tw.max(rows, axis=1, keepdims=True))
    z.store(powers / tw.sum(powers, axis=1, keepdims=True))


@tw.kernel(deny_checks=True)
def gemm(
    z: Mut[T, Cut[M, BM], Cut[N, BN]], x: Ref[T, M, K], y: Ref[T, K, N], *, BK: Const[int] = 64
) -> None:
    """`z = x @ y`, a block for each tile of z."""
    xs, ys = x.partition(BM, BK), y.partition(BK, BN)
    i, j = z.index
    acc = tw.zeros((BM, BN), f32)
    for k in range(xs.num_tiles(1)):
        acc = tw.mma(xs[i, k], ys[k, j], acc)
    z.store(acc.astype(z.dtype))


@tw.kernel(deny_checks=True)
def gemm_persistent(
    z: Mapped[T, Cut[M, BM], Cut[N, BN]], x: Ref[T, M, K], y: Ref[T, K, N], *, BK: Const[int] = 64
) -> None:
    """`z = x @ y` by as many blocks as fit the device, each with its share of z."""
    xs, ys = x.partition(BM, BK), y.partition(BK, BN)
    for at in z.indices():
        i, j = at
        acc = tw.zeros((BM, BN), f32)
        for k in range(xs.num_tiles(1)):
            acc = tw.mma(xs[i, k], ys[k, j], acc)
        z.store(acc.astype(z.dtype), at)


@tw.kernel
def permute_heads(
    z: Mut[f32, Cut[B, Literal[1]], Cut[H, Literal[1]], Cut[M, BM], Cut[D, D]],
    x: Ref[f32, B, H, M, D],
) -> None:
    """The heads in reverse: a block owns its output piece and computes the input."""
    b, h, m, d = z.index
    z.store(x.partition(1, 1, BM, D)[b, H - 1 - h, m, d])


@tw.kernel
def permute_heads_racing(
    z: Mut[f32, Cut[B, Literal[1]], Cut[H, Literal[1]], Cut[M, BM], Cut[D, D]],
    x: Ref[f32, B, H, M, D],
) -> None:
    """`permute_heads` with the index of the output computed, two of its indices swapped."""
    b, h, m, d = z.index
    tile = x.partition(1, 1, BM, D)[b, H - 1 - h, m, d]
    z.store(tile, b, m, h, d)  # type: ignore[arg-type,call-arg]  # type checkers see it, too


@tw.kernel
def pick_rows(
    z: Mut[f32, Cut[K, Literal[1]], Cut[D, D]], x: Ref[f32, M, D], rows: Ref[i32, K]
) -> None:
    """Rows of x by their numbers, which only the kernel knows."""
    i, j = z.index
    row = rows.partition(1)[i].item()
    z.store(x.partition(1, D)[row, j])
