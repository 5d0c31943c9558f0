"""Products with one tile for each block, and no walk.

The start of the kernel dominates the time of a small product. This kernel has nothing before its
loop; the GPU starts the blocks of later rounds as soon as earlier ones end.
"""

from __future__ import annotations

from typing import Any, Literal

import tilewright as tw
from tilewright import Const, Cut, Mut, Ref, f32
from tilewright.dims import BM, BN, A, B, C, K, M, N, P, Q, T, X, Y, Z
from tilewright.kernels.gemm.epilogues import BIAS, OUT, RESIDUAL, finished
from tilewright.kernels.gemm.operands import MatrixProduct, specialised
from tilewright.kernels.views import kept
from tilewright.tune import Config

__all__ = ["cut_at_once", "first_axis", "launch_once", "matmul_once_kernel"]


SHORT = 8  # tiles of a short axis


# The dims of `bias` and `residual` are independent: an unused one may have any extents.
@tw.kernel(deny_checks=True, starts_early=True)
def matmul_once_kernel(
    out: Mut[OUT, Literal[1], Cut[M, BM], Cut[N, BN]], a: Ref[T, P, M, K], b: Ref[T, Q, K, N],
    bias: Ref[BIAS, A, B, C], residual: Ref[RESIDUAL, X, Y, Z],
    *, FACTOR: Const[type[tw.DType]], BK: Const[int] = 64, LATENCY: Const[int] = 0,
    IS_FAST: Const[bool] = False, SHARED_A: Const[bool] = False, SHARED_B: Const[bool] = False,
    HAS_BIAS: Const[bool] = False, ACTIVATION: Const[int] = 0, HAS_RESIDUAL: Const[bool] = False,
) -> None:  # fmt: skip
    """`out = activation(a @ b + bias) + residual`."""
    tw.require(out.shape[0] == (Q if SHARED_A else P))
    if HAS_BIAS:
        tw.require(C == N)
    if HAS_RESIDUAL:
        tw.require(out.shape[0] == X and Y == M and Z == N)
    batch, i, j = out.index
    left, right = a.partition(1, BM, BK), b.partition(1, BK, BN)
    biases = bias.partition(1, 1, BN) if HAS_BIAS else None
    residuals = residual.partition(1, BM, BN) if HAS_RESIDUAL else None
    u, v = 0 if SHARED_A else batch, 0 if SHARED_B else batch
    acc = tw.zeros((BM, BN), f32)
    for k in range(left.num_tiles(2)):
        x = left.load(u, i, k, latency=LATENCY or None).reshape(BM, BK).astype(FACTOR)
        y = right.load(v, k, j, latency=LATENCY or None).reshape(BK, BN).astype(FACTOR)
        acc = tw.mma(x, y, acc, fast_acc=IS_FAST)
    result = finished(acc, (batch, i, j), biases, ACTIVATION, residuals)
    out.store(result.astype(out.dtype).reshape(1, BM, BN))


def launch_once(wanted: MatrixProduct, config: Config) -> tw.DeviceOp[Any]:
    """The launch of a product with one tile for each block."""
    kernel, constants = specialised(matmul_once_kernel, wanted.form, config)
    out = wanted.out
    cut = cut_at_once(out, config) if wanted.is_new else kept(out, cut_at_once, config)
    return kernel(cut, *wanted[1:5], **constants)


def cut_at_once(matrices: tw.Tensor, config: Config) -> tw.HostPartition:
    """The output tiles of each matrix."""
    tile = (1, config["BM"], config["BN"])
    if first_axis(matrices, config):
        return matrices[:].partition(*tile, order=(0, 2, 1))
    return matrices[:].partition(*tile)


def first_axis(matrices: tw.Tensor, config: Config) -> bool:
    """Whether tiles are numbered along the rows of an output first.

    Tiles that are computed at the same time share most of their operands if the shorter axis comes
    first. The order is a constant of the kernel, so that it follows from the weight alone, whose
    axis is that of the columns (of the rows, in a swapped product), and counts as short up to a few
    tiles.
    """
    is_swapped = bool(config.values.get("SWAPPED"))
    axis, tile = (-2, "BM") if is_swapped else (-1, "BN")
    tiles: int = -(-matrices.shape[axis] // config[tile])
    return (tiles <= SHORT) == is_swapped
