"""Products of few rows, as in decoding: `a @ b.T`, which reads each row of `b` once.

The bandwidth of the weights bounds such a product. The weights are the left factor of a tensor-core
tile, and the few rows of `a` fill its other side. Where the weights have too few rows to occupy a
GPU, each row of `b` and of `a` is folded into several shorter ones: the tile multiplies all folds
with each other, and the products of equal folds are summed.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

import tilewright as tw
from tilewright import Const, Mut, Ref, f32
from tilewright.dims import BM, BN, A, B, C, K, P, Q, R, S, T, X, Y, Z
from tilewright.kernels.gemm.epilogues import BIAS, OUT, RESIDUAL, finished
from tilewright.kernels.gemm.operands import (
    ALIGNMENT,
    MOST_FORMS,
    MatrixProduct,
    exchanged_batch,
    specialised,
)
from tilewright.kernels.views import kept
from tilewright.tune import Config

__all__ = ["FEWEST_ROWS", "folded", "gemv_kernel", "is_foldable", "launch_gemv"]

# Least rows of the other side of a tensor-core tile.
FEWEST_ROWS = 8


# The dims of `bias` and `residual` are independent: an unused one may have any extents.
@tw.kernel(deny_checks=True, starts_early=True)
def gemv_kernel(
    out: Mut[OUT, Literal[1], BM, BN], a: Ref[T, P, R, K], b: Ref[T, Q, S, K],
    bias: Ref[BIAS, A, B, C], residual: Ref[RESIDUAL, X, Y, Z],
    *, FACTOR: Const[type[tw.DType]], BK: Const[int] = 128, FOLDS: Const[int] = 1,
    IS_FAST: Const[bool] = False, SHARED_A: Const[bool] = False, SHARED_B: Const[bool] = False,
    HAS_BIAS: Const[bool] = False, ACTIVATION: Const[int] = 0, HAS_RESIDUAL: Const[bool] = False,
) -> None:  # fmt: skip
    """`out = activation(a @ b.T + bias) + residual`; each row of `a` and `b` has FOLDS parts."""
    tw.require(out.shape[0] == (Q if SHARED_A else P))
    tw.require(out.shape[1] * FOLDS == R and out.shape[2] * FOLDS == S)
    batch, i, j = out.index
    rows, weights = a.partition(1, BM * FOLDS, BK), b.partition(1, BN * FOLDS, BK)
    biases = bias.partition(1, 1, BN) if HAS_BIAS else None
    residuals = residual.partition(1, BM, BN) if HAS_RESIDUAL else None
    u, v = 0 if SHARED_A else batch, 0 if SHARED_B else batch
    acc = tw.zeros((BN * FOLDS, BM * FOLDS), f32)
    for k in range(rows.num_tiles(2)):
        w = weights[v, j, k].reshape(BN * FOLDS, BK).astype(FACTOR)
        x = rows[u, i, k].reshape(BM * FOLDS, BK).astype(FACTOR).T
        acc = tw.mma(w, x, acc, fast_acc=IS_FAST)
    if FOLDS > 1:
        each = acc.reshape(BN, FOLDS, BM, FOLDS)
        part = tw.arange(FOLDS)
        are_equal = part[:, None, None] == part  # [FOLDS, 1, FOLDS]
        acc = tw.sum(tw.sum(tw.where(are_equal, each, 0.0), axis=3), axis=1)
    result = finished(acc.T, (batch, i, j), biases, ACTIVATION, residuals)
    out.store(result.astype(out.dtype).reshape(1, BM, BN))


def launch_gemv(wanted: MatrixProduct, config: Config) -> tw.DeviceOp[Any]:
    """The launch of a product of few rows with a configuration."""
    a, b = wanted.a, kept(wanted.b, exchanged_batch)
    folds = config.values.get("FOLDS", 1)
    if folds > 1 and is_foldable(a, folds) and is_foldable(b, folds):
        a, b = kept(a, folded, folds), kept(b, folded, folds)
    else:
        config = _unfolded(config)
    kernel, constants = specialised(gemv_kernel, wanted.form, config)
    cut = wanted.out.partition(1, config["BM"], config["BN"])
    return kernel(cut, a, b, wanted.bias, wanted.residual, **constants)


@lru_cache(maxsize=MOST_FORMS)
def _unfolded(config: Config) -> Config:
    """A configuration with as many weights in a tile, rows for a tensor core, and no folds."""
    folds = config.values.get("FOLDS", 1)
    return config.updated(FOLDS=1, BN=config["BN"] * folds, BM=max(config["BM"], FEWEST_ROWS))


def is_foldable(rows: tw.Tensor, folds: int) -> bool:
    """Whether rows divide into equal parts that begin at addresses where tiles can be read."""
    length = rows.shape[2] // folds
    return (
        rows.is_contiguous
        and length * folds == rows.shape[2]
        and length * rows.itemsize % ALIGNMENT == 0
    )


def folded(rows: tw.Tensor, folds: int) -> tw.Tensor:
    """Each row as `folds` shorter rows."""
    batch, count, length = rows.shape
    return rows.reshape(batch, count * folds, length // folds)
