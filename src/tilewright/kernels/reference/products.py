"""Matrix products in float64, and the tolerance of a computation in f32."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "ACTIVATIONS",
    "finish",
    "grouped_matmul",
    "matmul",
    "matvec",
    "quantise",
    "rounding_bound",
    "scaled",
    "scaled_matmul",
]

Array = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]

GROUP = 128  # rows of a block and elements of a part that share a scale
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


def scaled_matmul(
    a: Array,
    b: Array,
    a_scale: Array | None = None,
    b_scale: Array | None = None,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    **epilogue: Any,
) -> Doubles:
    """`activation((a * a_scale) @ (b * b_scale) + bias) + residual`, as `kernels.scaled_matmul`."""
    left = scaled(a, a_scale)
    right = scaled(b, b_scale, is_row=not transpose_b)
    return matmul(left, right, transpose_a=transpose_a, transpose_b=transpose_b, **epilogue)


def scaled(x: Array, scale: Array | None, *, is_row: bool = False) -> Doubles:
    """A matrix times its scales: one number, or one for each row, block of rows, or part of K.

    Scales of one axis belong to rows, or to columns if they are a row.
    """
    wide = x.astype(np.float64)
    if scale is None:
        return wide
    if scale.ndim < 2:
        scale = scale.reshape((1, -1) if is_row else (-1, 1))
    for axis, extent in enumerate(wide.shape):
        each = extent if scale.shape[axis] == 1 else 1 if scale.shape[axis] == extent else GROUP
        scale = np.repeat(scale, each, axis).take(range(extent), axis)
    return np.asarray(wide * scale.astype(np.float64))


def quantise(x: Array, kind: str = "row", *, greatest: float = 448.0) -> tuple[Doubles, Doubles]:
    """`x / scale`, not rounded, and the scales of `kernels.quantise`."""
    wide = x.reshape(-1, x.shape[-1]).astype(np.float64)
    sizes = np.where(np.isfinite(wide), np.abs(wide), 0.0)
    rows, columns = sizes.shape
    height = {"tensor": rows, "block": GROUP}.get(kind, 1)
    width = GROUP if kind in ("part", "block") else columns
    found = np.maximum.reduceat(sizes, range(0, rows, height), axis=0)
    found = np.maximum.reduceat(found, range(0, columns, width), axis=1)
    scales = np.where(found == 0, 1.0, np.maximum(found / greatest, 2.0**-126))
    each = np.repeat(np.repeat(scales, height, 0)[:rows], width, 1)[:, :columns]
    return np.clip(wide / each, -greatest, greatest).reshape(x.shape), scales


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
