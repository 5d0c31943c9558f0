"""Products in shares of two tiles of different widths, side by side.

A tile extent is a power of two, and an output that such tiles cover in slightly more than one round
takes two rounds. Here the share of a block is a tile of BN columns from the first part of the
output and one of BX columns from the last part, for instance 192 or 320 columns in all; both
accumulators read the same rows of `a`. Each block has one share, and there is no walk.
"""

from __future__ import annotations

from typing import Any

import tilewright as tw
from tilewright import Const, Cut, Mut, Ref, f32
from tilewright.dims import BM, BN, A, B, C, D, G, H, K, M, N, P, Q, R, S, T, X, Y, Z
from tilewright.kernels.gemm.epilogues import BIAS, OUT, RESIDUAL, finished
from tilewright.kernels.gemm.once import first_axis
from tilewright.kernels.gemm.operands import MatrixProduct, only_matrix, specialised
from tilewright.kernels.views import kept
from tilewright.tune import Config

__all__ = ["first_columns", "launch_wide", "matmul_wide_kernel"]

EVEN = 16  # alignment, in elements, of the start of the second part


class BX(tw.Dim):
    """Columns of the second tile of a share."""


# The dims of biases and residuals are independent: an unused one may have any extents.
@tw.kernel(deny_checks=True, starts_early=True)
def matmul_wide_kernel(
    out: Mut[OUT, Cut[M, BM], Cut[N, BN]], last_out: Mut[OUT, Cut[M, BM], Cut[X, BX]],
    a: Ref[T, M, K], b: Ref[T, K, N], last_b: Ref[T, K, X],
    bias: Ref[BIAS, A, B, C], last_bias: Ref[BIAS, D, G, H],
    residual: Ref[RESIDUAL, P, Q, R], last_residual: Ref[RESIDUAL, S, Y, Z],
    *, FACTOR: Const[type[tw.DType]], BK: Const[int] = 64, LATENCY: Const[int] = 0,
    IS_FAST: Const[bool] = False,
    HAS_BIAS: Const[bool] = False, ACTIVATION: Const[int] = 0, HAS_RESIDUAL: Const[bool] = False,
) -> None:  # fmt: skip
    """`activation(a @ b + bias) + residual` of one matrix, in its first and its last columns."""
    if HAS_BIAS:
        tw.require(C == N and H == X)
    if HAS_RESIDUAL:
        tw.require(Q == M and R == N and Y == M and Z == X)
    i, j = out.index
    left, right, last = a.partition(BM, BK), b.partition(BK, BN), last_b.partition(BK, BX)
    biases = bias.partition(1, 1, BN) if HAS_BIAS else None
    last_biases = last_bias.partition(1, 1, BX) if HAS_BIAS else None
    residuals = residual.partition(1, BM, BN) if HAS_RESIDUAL else None
    last_residuals = last_residual.partition(1, BM, BX) if HAS_RESIDUAL else None
    acc, last_acc = tw.zeros((BM, BN), f32), tw.zeros((BM, BX), f32)
    for k in range(left.num_tiles(1)):
        x = left.load(i, k, latency=LATENCY or None).astype(FACTOR)
        y = right.load(k, j, latency=LATENCY or None).astype(FACTOR)
        acc = tw.mma(x, y, acc, fast_acc=IS_FAST)
        y = last.load(k, j, latency=LATENCY or None).astype(FACTOR)
        last_acc = tw.mma(x, y, last_acc, fast_acc=IS_FAST)
    result = finished(acc, (0, i, j), biases, ACTIVATION, residuals)
    out.store(result.astype(out.dtype))
    result = finished(last_acc, (0, i, j), last_biases, ACTIVATION, last_residuals)
    last_out.store(result.astype(out.dtype))


def first_columns(n: int, config: Config) -> int | None:
    """Columns of the first part; None unless every share has both tiles."""
    values = config.values
    width, more = values["BN"], values.get("BX", 0)
    if not more:
        return None
    shares = -(-n // (width + more))
    # Leave at least one column for each second tile; the edge is aligned for tile loads.
    edge = min(shares * width, n - (shares - 1) * more - 1) // EVEN * EVEN
    return edge if (shares - 1) * width < edge and n - edge <= shares * more else None


def launch_wide(wanted: MatrixProduct, config: Config, edge: int) -> tw.DeviceOp[Any]:
    """The launch of a product of one matrix, with `edge` columns in the first part."""
    kernel, constants = specialised(matmul_wide_kernel, wanted.form, config)
    epilogue = wanted.form.epilogue
    out, last_out = _parts(wanted.out, edge)
    b, last_b = _parts(wanted.b, edge)
    biases = _parts(wanted.bias, edge if epilogue["HAS_BIAS"] else None)
    residuals = _parts(wanted.residual, edge if epilogue["HAS_RESIDUAL"] else None)
    order = (1, 0) if first_axis(wanted.out, config) else ()
    height, widths = config["BM"], (config["BN"], config["BX"])
    cuts = (
        kept(one, only_matrix).partition(height, width, order=order)
        for one, width in zip((out, last_out), widths, strict=True)
    )
    factors = (kept(one, only_matrix) for one in (wanted.a, b, last_b))
    return kernel(*cuts, *factors, *biases, *residuals, **constants)


def _parts(batch: tw.Tensor, edge: int | None) -> tuple[tw.Tensor, tw.Tensor]:
    """The columns before and behind the edge; a stand-in is returned unchanged."""
    if edge is None:
        return batch, batch
    return kept(batch, columns, 0, edge), kept(batch, columns, edge, batch.shape[2])


def columns(batch: tw.Tensor, start: int, stop: int) -> tw.Tensor:
    """A range of columns of each matrix."""
    return batch[:, :, start:stop]
