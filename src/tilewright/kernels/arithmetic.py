"""Arithmetic shared by the library kernels; inlined into kernels, never run on the host.

Floats narrower than f32 are computed in f32, f64 in f64. Quotients and powers in f32 are the fast
approximations of the GPU: at most two units in the last place off, and 0 in place of a subnormal.
"""

from __future__ import annotations

import math
from typing import Any

import tilewright as tw
from tilewright import bf16, f16, f32, f64

__all__ = [
    "LN_2",
    "LOG2_E",
    "afresh",
    "gated",
    "in_lanes",
    "kept",
    "kept_line",
    "normal_share",
    "number",
    "once_more",
    "power_of_2",
    "quotient",
    "wide",
    "wide_dtype",
]

LOG2_E = math.log2(math.e)  # exp(x) is exp2(x * LOG2_E)
LN_2 = math.log(2)  # and log(x) is log2(x) * LN_2

# Tail of the normal distribution beyond a >= 0: log2(tail * exp(a² / 2) / t) as a polynomial in
# t = 1 / (1 + 0.4 a), lowest power first. Minimax fit with a relative error of 9e-8.
TAIL = (
    -2.64752279, 1.43861034, 0.536041699, -0.258473809, 0.774262245, -2.51524796, 2.80124731,
    -1.40286147, 0.27394456,
)  # fmt: skip
NO_TAIL = 16.0  # the tail beyond this underflows f32


def wide_dtype(dtype: Any) -> Any:
    """The dtype in which a float dtype is computed."""
    return f64 if dtype == f64 else f32


def wide(x: Any) -> Any:
    """A tile converted to its wide dtype."""
    return x.astype(wide_dtype(x.dtype))


def number(n: Any, dtype: Any) -> Any:
    """An extent converted to a dtype of arithmetic."""
    return n.astype(dtype)


def quotient(a: Any, b: Any) -> Any:
    """`a / b`, where `b` is a wide tile."""
    if b.dtype == f64:
        return a / b
    return tw.divide(a, b, rounding="approx", ftz=True)


def power_of_2(x: Any) -> Any:
    """`2 ** x`, where `x` is a wide tile."""
    return tw.exp2(x) if x.dtype == f64 else tw.exp2(x, ftz=True)


def gated(x: Any, gate: Any) -> Any:
    """`x * sigmoid(gate)`, which is `x / (1 + exp(-gate))`."""
    return quotient(x, 1.0 + power_of_2(gate * -LOG2_E))


def kept(parts: Any, i: Any, count: int) -> Any:
    """The first `count` parts of rows i, loaded into registers before any arithmetic."""
    row: tuple[Any, ...] = ()
    for j in tw.static_range(count):
        row = (*row, parts[i, j])
    return row


def kept_line(parts: Any, count: int) -> Any:
    """The first `count` parts of one line of weights, loaded before any sum needs them."""
    row: tuple[Any, ...] = ()
    for j in tw.static_range(count):
        row = (*row, parts[j])
    return row


def afresh(x: Any) -> Any:
    """A copy of a narrow tile for one step of the kernel; -0.0 becomes 0.0.

    The assembler merges equal expressions of two steps and keeps the result alive between them; a
    wide copy takes twice the registers of the narrow tile. A distinct copy for each step keeps only
    the narrow tile alive.
    """
    return x + 0.0 if _is_narrow(x) else x


def once_more(x: Any) -> Any:
    """A second distinct copy, for a third step; a NaN becomes -inf."""
    return tw.maximum(x, -math.inf) if _is_narrow(x) else x


def _is_narrow(x: Any) -> bool:
    """Whether a tile holds floats that are computed in f32."""
    return bool(x.dtype == f16 or x.dtype == bf16)


def in_lanes(tile: Any, lanes: int, dtype: Any) -> Any:
    """A tile of rows as [row, load, lane, neighbour], in the layout in which this dtype is loaded.

    A thread loads 16 bytes at a time, and the following 16 bytes belong to the next thread. With
    one lane for each thread of a row, a reduction along `load` and `neighbour` stays in a thread.
    A single lane has all of the row in order, as on the CPU.
    """
    rows, columns = tile.shape
    if lanes == 1:
        return tile.reshape(rows, columns, 1, 1)
    neighbours = min(2 if dtype == f64 else 4 if dtype == f32 else 8, columns // lanes)
    return tile.reshape(rows, columns // (lanes * neighbours), lanes, neighbours)


def normal_share(x: Any) -> Any:
    """GELU of an f32 tile: `x * P(X < x)` for a normally distributed X."""
    a = tw.minimum(tw.abs(x), NO_TAIL, nan=True)
    t = quotient(1.0, 1.0 + 0.4 * a)
    exponent = tw.full(x.shape, TAIL[-1], x.dtype)
    for power in tw.static_range(len(TAIL) - 2, -1, -1):
        exponent = exponent * t + TAIL[power]
    beyond = t * power_of_2(exponent - a * a * (LOG2_E / 2))
    return tw.maximum(x, 0.0, nan=True) - a * beyond
