"""Products of few rows, as decoding has them: `a @ w.T`, which reads each weight once.

Such a product is as fast as its weights can be read. One row is multiplied element by element and
summed at the end; up to sixteen rows share a tile of the tensor cores.
"""

from __future__ import annotations

from typing import Any, Literal

import tilewright as tw
from tilewright import Const, Mut, Ref, f32
from tilewright.dims import BM, BN, A, B, C, K, M, N, P, Q, T, X, Y, Z
from tilewright.kernels.epilogues import finished
from tilewright.kernels.products import Product
from tilewright.tune import Config

__all__ = ["gemv_kernel", "launch_gemv"]


class OUT(tw.AnyDType):
    """What the result is kept in."""


class BIAS(tw.AnyDType):
    """What the bias is kept in."""


class RESIDUAL(tw.AnyDType):
    """What the residual is kept in."""


@tw.kernel(deny_checks=True)
def gemv_kernel(
    out: Mut[OUT, Literal[1], BM, BN], a: Ref[T, P, M, K], b: Ref[T, Q, N, K],
    bias: Ref[BIAS, A, B, C], residual: Ref[RESIDUAL, X, Y, Z],
    *, FACTOR: Const[type[tw.DType]], BK: Const[int] = 512, IS_FAST: Const[bool] = False,
    SHARED_A: Const[bool] = False, SHARED_B: Const[bool] = False,
    HAS_BIAS: Const[bool] = False, ACTIVATION: Const[int] = 0, HAS_RESIDUAL: Const[bool] = False,
) -> None:  # fmt: skip
    """`out = activation(a @ b.T + bias) + residual`, for BM rows of `a` and BN of `b`."""
    batch, i, j = out.index
    rows, weights = a.partition(1, BM, BK), b.partition(1, BN, BK)
    biases = bias.partition(1, 1, BN) if HAS_BIAS else None
    residuals = residual.partition(1, BM, BN) if HAS_RESIDUAL else None
    u, v = 0 if SHARED_A else batch, 0 if SHARED_B else batch
    if BM == 1:
        products = tw.zeros((BN, BK), f32)
        for k in range(rows.num_tiles(2)):
            row = rows[u, i, k].reshape(1, BK).astype(f32)
            products += weights[v, j, k].reshape(BN, BK).astype(f32) * row
        acc = tw.sum(products, axis=1)[None, :]
    else:
        acc = tw.zeros((BM, BN), f32)
        for k in range(rows.num_tiles(2)):
            x = rows[u, i, k].reshape(BM, BK).astype(FACTOR)
            y = weights[v, j, k].reshape(BN, BK).astype(FACTOR).T
            acc = tw.mma(x, y, acc, fast_acc=IS_FAST)
    result = finished(acc, (batch, i, j), biases, ACTIVATION, residuals)
    out.store(result.astype(out.dtype).reshape(1, BM, BN))


def launch_gemv(wanted: Product, config: Config) -> tw.DeviceOp[Any]:
    """The launch of a product of few rows with a configuration."""
    cut = wanted.out.partition(1, config["BM"], config["BN"])
    constants = config.arguments(gemv_kernel)
    weights = wanted.b.permute(0, 2, 1)
    return config.applied_to(gemv_kernel)(
        cut, wanted.a, weights, **wanted.epilogue, **wanted.constants, **constants
    )
