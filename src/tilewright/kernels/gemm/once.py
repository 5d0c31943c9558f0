"""Products whose tiles all fit the GPU at once: one tile for each block, and no walk.

The start of the kernel dominates the time of a small product. This kernel has nothing before its
loop: one matrix, no batch, no order of tiles.
"""

from __future__ import annotations

from math import ceil
from typing import Any

import tilewright as tw
from tilewright import Const, Cut, Mut, Ref, f32
from tilewright.dims import BM, BN, A, B, C, K, M, N, T, X, Y, Z
from tilewright.kernels.gemm.epilogues import BIAS, OUT, RESIDUAL, finished
from tilewright.kernels.gemm.operands import MatrixProduct, only_matrix, specialised
from tilewright.kernels.views import kept
from tilewright.tune import Config

__all__ = ["cut_at_once", "fits_at_once", "launch_once", "matmul_once_kernel"]


# The dims of `bias` and `residual` are independent: an unused one may have any extents.
@tw.kernel(deny_checks=True, starts_early=True)
def matmul_once_kernel(
    out: Mut[OUT, Cut[M, BM], Cut[N, BN]], a: Ref[T, M, K], b: Ref[T, K, N],
    bias: Ref[BIAS, A, B, C], residual: Ref[RESIDUAL, X, Y, Z],
    *, FACTOR: Const[type[tw.DType]], BK: Const[int] = 64, LATENCY: Const[int] = 0,
    IS_FAST: Const[bool] = False,
    HAS_BIAS: Const[bool] = False, ACTIVATION: Const[int] = 0, HAS_RESIDUAL: Const[bool] = False,
) -> None:  # fmt: skip
    """`out = activation(a @ b + bias) + residual` of one matrix."""
    if HAS_BIAS:
        tw.require(C == N)
    if HAS_RESIDUAL:
        tw.require(Y == M and Z == N)
    i, j = out.index
    left, right = a.partition(BM, BK), b.partition(BK, BN)
    biases = bias.partition(1, 1, BN) if HAS_BIAS else None
    residuals = residual.partition(1, BM, BN) if HAS_RESIDUAL else None
    acc = tw.zeros((BM, BN), f32)
    for k in range(left.num_tiles(1)):
        x = left.load(i, k, latency=LATENCY or None).astype(FACTOR)
        y = right.load(k, j, latency=LATENCY or None).astype(FACTOR)
        acc = tw.mma(x, y, acc, fast_acc=IS_FAST)
    result = finished(acc, (0, i, j), biases, ACTIVATION, residuals)
    out.store(result.astype(out.dtype))


def fits_at_once(wanted: MatrixProduct, config: Config) -> bool:
    """Whether a configuration gives every block at most one tile."""
    batch, m, n = wanted.out.shape
    blocks: int | None = config["blocks"]
    tiles: int = ceil(m / config["BM"]) * ceil(n / config["BN"])
    return batch == 1 and blocks is not None and tiles <= blocks


def launch_once(wanted: MatrixProduct, config: Config) -> tw.DeviceOp[Any]:
    """The launch of a product that satisfies `fits_at_once`."""
    kernel, constants = specialised(matmul_once_kernel, wanted.form, config)
    a, b = kept(wanted.a, only_matrix), kept(wanted.b, only_matrix)
    out = only_matrix(wanted.out) if wanted.is_new else kept(wanted.out, only_matrix)
    cut = cut_at_once(out, config["BM"], config["BN"])
    return kernel(cut, a, b, wanted.bias, wanted.residual, **constants)


def cut_at_once(matrix: tw.Tensor, height: int, width: int) -> tw.HostPartition:
    """Output tiles numbered along the shorter axis first.

    Tiles that are computed at the same time then share most of their operands.
    """
    rows, columns = -(-matrix.shape[0] // height), -(-matrix.shape[1] // width)
    if rows <= columns:
        return matrix.partition(height, width, order=(1, 0))
    return matrix.partition(height, width)
