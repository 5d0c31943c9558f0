"""Matrix products in float64, and the tolerance of a computation in f32."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["ACTIVATIONS", "finish", "grouped_matmul", "matmul", "matvec", "rounding_bound"]

Array = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]

ROUNDING = 2.0**-24  # relative error of one f32 operation
SLOPE = 1.13  # of the steepest activation
FUNCTIONS = 1e-6  # error of an activation, relative to its argument and to one


def _same(x: Doubles) -> Doubles:
    return x


def _relu(x: Doubles) -> Doubles:
    return np.maximum(x, 0.0)


def _gelu(x: Doubles) -> Doubles:
    erf = np.vectorize(math.erf, otypes=[np.float64])
    return np.asarray(x * 0.5 * (1.0 + erf(x * math.sqrt(0.5))))


def _silu(x: Doubles) -> Doubles:
    return np.asarray(x * 0.5 * (1.0 + np.tanh(0.5 * x)))  # the logistic function, no overflow


# Activations by the name that a call gives.
ACTIVATIONS: dict[str | None, Callable[[Doubles], Doubles]] = {
    None: _same,
    "relu": _relu,
    "gelu": _gelu,
    "silu": _silu,
}


def matmul(
    a: Array, b: Array, *, transpose_a: bool = False, transpose_b: bool = False, **epilogue: Any
) -> Doubles:
    """`activation(a @ b + bias) + residual`; the options of `kernels.matmul`."""
    left = np.swapaxes(a, -1, -2) if transpose_a else a
    right = np.swapaxes(b, -1, -2) if transpose_b else b
    return finish(left.astype(np.float64) @ right.astype(np.float64), **epilogue)


def matvec(a: Array, x: Array, *, transpose_a: bool = False, **epilogue: Any) -> Doubles:
    """`activation(a @ x + bias) + residual`; the options of `kernels.matvec`."""
    left = np.swapaxes(a, -1, -2) if transpose_a else a
    sums = (left.astype(np.float64) @ x.astype(np.float64)[..., None])[..., 0]
    return finish(sums, **epilogue)


def grouped_matmul(
    a: Array,
    b: Array,
    offsets: Array,
    *,
    transpose_b: bool = False,
    bias: Array | None = None,
    activation: str | None = None,
    residual: Array | None = None,
) -> Doubles:
    """Rows `offsets[g]` to `offsets[g + 1]` of `a` with `b[g]` and `bias[g]`; NaN in no group."""
    columns = b.shape[-2] if transpose_b else b.shape[-1]
    found = np.full((a.shape[0], columns), np.nan)
    first = 0
    for group, (begin, end) in enumerate(pairwise(offsets.tolist())):
        first = max(first, begin)  # no group begins before another has ended
        rows = slice(first, max(end, first))
        found[rows] = matmul(
            a[rows],
            b[group],
            transpose_b=transpose_b,
            bias=None if bias is None else bias[group],
            activation=activation,
            residual=None if residual is None else residual[rows],
        )
    return found


def finish(
    sums: Doubles,
    *,
    bias: Array | None = None,
    activation: str | None = None,
    residual: Array | None = None,
) -> Doubles:
    """Apply the epilogue to the sums."""
    biased = sums if bias is None else sums + bias.astype(np.float64)
    result = ACTIVATIONS[activation](biased)
    return np.asarray(result if residual is None else result + residual.astype(np.float64))


def rounding_bound(
    sizes: Doubles,
    terms: int,
    expected: Doubles,
    *,
    out_rounding: float,
    factor_rounding: float = 0.0,
) -> Doubles:
    """Tolerance of a product with sums in f32, element by element.

    `sizes` is the product of the factors' absolute values, plus those of bias and residual; `terms`
    is K. `out_rounding` is the relative error of the result's dtype, `factor_rounding` that of the
    dtype to which the factors are rounded, if any.
    """
    sums = ((terms + 4) * ROUNDING + 2 * factor_rounding) * sizes * SLOPE
    return np.asarray(sums + FUNCTIONS * (1.0 + sizes) + out_rounding * np.abs(expected))
