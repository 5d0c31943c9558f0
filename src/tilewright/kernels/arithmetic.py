"""Arithmetic that the kernels of the library share; inlined into them, never run on the host.

Narrow floats are computed with in f32, f64 in f64. In f32 quotients are the fast ones of the GPU,
off by two units in the last place at most.
"""

from __future__ import annotations

import math
from typing import Any

import tilewright as tw
from tilewright import f32, f64

__all__ = ["LN_2", "LOG2_E", "number", "quotient", "wide", "wide_dtype"]

LOG2_E = math.log2(math.e)  # exp(x) is exp2(x * LOG2_E)
LN_2 = math.log(2)  # and log(x) is log2(x) * LN_2


def wide_dtype(dtype: Any) -> Any:
    """What numbers of a float dtype are computed in."""
    return f64 if dtype == f64 else f32


def wide(x: Any) -> Any:
    """A tile in the dtype that is computed in."""
    return x.astype(wide_dtype(x.dtype))


def number(n: Any, dtype: Any) -> Any:
    """An extent as a number to compute with."""
    return n.astype(dtype)


def quotient(a: Any, b: Any) -> Any:
    """`a / b` of wide tiles."""
    if a.dtype == f64:
        return a / b
    return tw.divide(a, b, rounding="approx")
