"""Split-K: the sums of a product over ranges of K, each by its own blocks, and their total.

Where an output has too few tiles to occupy a GPU, K is split into ranges. Every range of every tile
is a partial sum in f32; a second kernel adds them in a fixed order, so results are the same at
every run. The number of ranges is an extent of the partial sums and not a constant, so that one
compiled kernel serves any number.
"""

from __future__ import annotations

from typing import Any, Literal

import tilewright as tw
from tilewright import Const, Cut, Mut, Ref, f32
from tilewright.dims import BM, BN, A, B, C, K, M, N, P, Q, S, T, X, Y, Z
from tilewright.kernels.gemm.epilogues import BIAS, OUT, RESIDUAL, finished
from tilewright.kernels.gemm.operands import LINE, MatrixProduct, specialised
from tilewright.tune import Config

__all__ = [
    "add_splits",
    "launch_parts",
    "launch_splits",
    "parts_of",
    "split_kernel",
    "sum_splits_kernel",
]

SUM_TILE = (4, 128)  # tile of the kernel that adds partial sums
SUM_DEPTH = 4  # partial sums that it reads at a time
IN_A_LINE = LINE // 4  # f32 in a line of the cache


@tw.kernel(deny_checks=True, starts_early=True)
def split_kernel(
    parts: Mut[f32, Literal[1], Literal[1], Cut[M, BM], Cut[N, BN]],
    a: Ref[T, P, M, K], b: Ref[T, Q, K, N],
    *, FACTOR: Const[type[tw.DType]], BK: Const[int] = 64, LATENCY: Const[int] = 0,
    IS_FAST: Const[bool] = False, SHARED_A: Const[bool] = False, SHARED_B: Const[bool] = False,
) -> None:  # fmt: skip
    """`parts[s] = a @ b`, summed over range s of K."""
    tw.require(parts.shape[1] == (Q if SHARED_A else P))
    left, right = a.partition(1, BM, BK), b.partition(1, BK, BN)
    steps = left.num_tiles(2)
    stretch = tw.cdiv(steps, parts.shape[0])
    split, batch, i, j = parts.index
    u, v = 0 if SHARED_A else batch, 0 if SHARED_B else batch
    first = split * stretch
    acc = tw.zeros((BM, BN), f32)
    for k in range(first, min(first + stretch, steps)):
        x = left.load(u, i, k, latency=LATENCY or None).reshape(BM, BK).astype(FACTOR)
        y = right.load(v, k, j, latency=LATENCY or None).reshape(BK, BN).astype(FACTOR)
        acc = tw.mma(x, y, acc, fast_acc=IS_FAST)
    parts.store(acc.reshape(1, 1, BM, BN))


# The dims of `bias` and `residual` are independent: an unused one may have any extents.
@tw.kernel(deny_checks=True, starts_early=True, occupancy=4)  # it only reads: much at a time
def sum_splits_kernel(
    out: Mut[OUT, Literal[1], Cut[M, BM], Cut[N, BN]], parts: Ref[f32, S, P, M, N],
    bias: Ref[BIAS, A, B, C], residual: Ref[RESIDUAL, X, Y, Z],
    *, DEPTH: Const[int] = SUM_DEPTH, HAS_BIAS: Const[bool] = False, ACTIVATION: Const[int] = 0,
    HAS_RESIDUAL: Const[bool] = False,
) -> None:  # fmt: skip
    """`out = activation(sum of all parts + bias) + residual`."""
    tw.require(out.shape[0] == P)
    if HAS_BIAS:
        tw.require(C == N)
    if HAS_RESIDUAL:
        tw.require(out.shape[0] == X and Y == M and Z == N)
    batch, i, j = out.index
    tiles = parts.partition(DEPTH, 1, BM, BN)
    biases = bias.partition(1, 1, BN) if HAS_BIAS else None
    residuals = residual.partition(1, BM, BN) if HAS_RESIDUAL else None
    acc = tw.zeros((BM, BN), f32)
    for some in range(tiles.num_tiles(0)):
        acc += tw.sum(tiles[some, batch, i, j].reshape(DEPTH, BM, BN), axis=0)
    result = finished(acc, (batch, i, j), biases, ACTIVATION, residuals)
    out.store(result.astype(out.dtype).reshape(1, BM, BN))


def launch_splits(wanted: MatrixProduct, config: Config) -> tw.DeviceOp[Any]:
    """Partial sums of SPLITS ranges of K, then their total."""
    parts = parts_of(wanted, config["SPLITS"])
    sums = launch_parts(wanted, config, parts)
    return sums.then(lambda _: add_splits(wanted, parts))


def launch_parts(wanted: MatrixProduct, config: Config, parts: tw.Tensor) -> tw.DeviceOp[Any]:
    """The launch that computes the partial sums."""
    kernel, constants = specialised(split_kernel, wanted.form, config, is_last=False)
    cut = parts.partition(1, 1, config["BM"], config["BN"])
    return kernel(cut, wanted.a, wanted.b, **constants)


def add_splits(wanted: MatrixProduct, parts: tw.Tensor) -> tw.DeviceOp[Any]:
    """The launch that adds the partial sums, for each matrix."""
    cut = wanted.out.partition(1, *SUM_TILE)
    return sum_splits_kernel(cut, parts, wanted.bias, wanted.residual, **wanted.form.epilogue)


def parts_of(wanted: MatrixProduct, splits: int) -> tw.Tensor:
    """Partial sums, with rows of whole lines of the cache."""
    batch, m, n = wanted.out.shape
    pitch = -(-n // IN_A_LINE) * IN_A_LINE
    return tw.empty((splits, batch, m, pitch), f32, device=wanted.out.device)[..., :n]
