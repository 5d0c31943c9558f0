"""Arithmetic that the kernels of the library share; inlined into them, never run on the host.

Narrow floats are computed with in f32, f64 in f64. In f32 quotients are the fast ones of the GPU,
off by two units in the last place at most.
"""

from __future__ import annotations

import math
from typing import Any

import tilewright as tw
from tilewright import f32, f64

__all__ = [
    "LN_2",
    "LOG2_E",
    "normal_share",
    "number",
    "quotient",
    "sigmoid",
    "wide",
    "wide_dtype",
]

LOG2_E = math.log2(math.e)  # exp(x) is exp2(x * LOG2_E)
LN_2 = math.log(2)  # and log(x) is log2(x) * LN_2

# Of the normal distribution's tail beyond a >= 0, log2(tail * exp(a² / 2) / t) as a polynomial of
# t = 1 / (1 + 0.4 a), lowest power first: the best of its degree, 9e-8 of the tail away.
TAIL = (
    -2.64752279, 1.43861034, 0.536041699, -0.258473809, 0.774262245, -2.51524796, 2.80124731,
    -1.40286147, 0.27394456,
)  # fmt: skip
NO_TAIL = 16.0  # beyond it f32 has no number so small


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


def sigmoid(x: Any) -> Any:
    """`1 / (1 + exp(-x))`."""
    return quotient(tw.full(x.shape, 1.0, x.dtype), 1.0 + tw.exp2(x * -LOG2_E))


def normal_share(x: Any) -> Any:
    """`x * (share of a normal distribution below x)`, which is GELU; of f32."""
    a = tw.minimum(tw.abs(x), NO_TAIL, nan=True)
    t = quotient(tw.full(x.shape, 1.0, x.dtype), 1.0 + 0.4 * a)
    exponent = tw.full(x.shape, TAIL[-1], x.dtype)
    for power in tw.static_range(len(TAIL) - 2, -1, -1):
        exponent = exponent * t + TAIL[power]
    beyond = t * tw.exp2(exponent - a * a * (LOG2_E / 2))
    return tw.maximum(x, 0.0, nan=True) - a * beyond
