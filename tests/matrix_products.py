"""Matrix products of the library beside float64: factors, and how far a result may be off."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import tilewright as tw
from tilewright import f16
from tilewright.dtypes import numpy_dtype
from tilewright.kernels.reference import products as reference

__all__ = ["TF32", "check", "check_grouped", "some", "stored"]

TF32 = 2.0**-11  # relative error of rounding to it


def some(shape: Any, dtype: Any = f16, seed: int = 0) -> tw.Tensor:
    """Normally distributed numbers, as the dtype rounds them."""
    numbers = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return tw.from_numpy(numbers.astype(numpy_dtype(dtype)))


def stored(
    m: int, n: int, k: int, transpose_a: bool, transpose_b: bool, dtype: Any
) -> tuple[tw.Tensor, tw.Tensor]:
    """Two factors as they lie in memory."""
    a = some((k, m) if transpose_a else (m, k), dtype, 1)
    return a, some((n, k) if transpose_b else (k, n), dtype, 2)


def check(
    result: tw.Tensor,
    a: tw.Tensor,
    b: tw.Tensor,
    *,
    factor_rounding: float = 0.0,
    transpose_a: bool = False,
    transpose_b: bool = False,
    **epilogue: Any,
) -> None:
    """Every element is within the error that the arithmetic may have."""
    x, y = a.numpy().astype(np.float64), b.numpy().astype(np.float64)
    x, y = x.swapaxes(-1, -2) if transpose_a else x, y.swapaxes(-1, -2) if transpose_b else y
    arrays = _arrays(epilogue)
    wanted = reference.matmul(x, y, **arrays)
    added = [abs(arrays[name].astype(np.float64)) for name in _ADDED if name in arrays]
    bound = reference.rounding_bound(
        sum(added, abs(x) @ abs(y)), x.shape[-1], wanted,
        out_rounding=_rounding(result.dtype), factor_rounding=factor_rounding,
    )  # fmt: skip
    found = result.numpy().astype(np.float64)
    assert found.shape == wanted.shape
    assert (abs(found - wanted) <= bound).all(), abs(found - wanted).max()


def check_grouped(
    result: tw.Tensor,
    a: tw.Tensor,
    b: tw.Tensor,
    offsets: Any,
    *,
    elsewhere: float,
    **options: Any,
) -> None:
    """Rows of each group as if it stood alone, and what was there in rows of no group."""
    wanted = reference.grouped_matmul(a.numpy(), b.numpy(), offsets, **_arrays(options))
    found = result.numpy().astype(np.float64)
    nowhere = np.isnan(wanted)
    assert (found[nowhere] == elsewhere).all()
    error = abs(found - wanted)[~nowhere]
    scale = max(1.0, abs(wanted[~nowhere]).max(initial=0.0))
    assert error.max(initial=0.0) <= 4 * _rounding(result.dtype) * scale + 1e-4


_ADDED = ("bias", "residual")


def _arrays(options: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value.numpy() if isinstance(value, tw.Tensor) else value
        for name, value in options.items()
    }


def _rounding(dtype: Any) -> float:
    """The relative error of storing a number."""
    return float(ml_dtypes.finfo(numpy_dtype(dtype)).eps) / 2
