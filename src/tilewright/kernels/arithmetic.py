"""Arithmetic that the kernels of the library share; inlined into them, never run on the host.

Narrow floats are computed with in f32, f64 in f64. In f32 quotients and powers are the fast ones of
the GPU: off by two units in the last place at most, and 0 where only a subnormal number would do.
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
    """`a / b`; b is a wide tile."""
    if b.dtype == f64:
        return a / b
    return tw.divide(a, b, rounding="approx", ftz=True)


def power_of_2(x: Any) -> Any:
    """`2 ** x` of a wide tile."""
    return tw.exp2(x) if x.dtype == f64 else tw.exp2(x, ftz=True)


def gated(x: Any, gate: Any) -> Any:
    """`x * sigmoid(gate)`, which is `x / (1 + exp(-gate))`."""
    return quotient(x, 1.0 + power_of_2(gate * -LOG2_E))


def kept(parts: Any, i: Any, count: int) -> Any:
    """The first parts of rows i, all of them in registers, and read before anything is made."""
    row: tuple[Any, ...] = ()
    for j in tw.static_range(count):
        row = (*row, parts[i, j])
    return row


def kept_line(parts: Any, count: int) -> Any:
    """The same of the only row, a weight for each column: no sum has to wait before it is read."""
    row: tuple[Any, ...] = ()
    for j in tw.static_range(count):
        row = (*row, parts[j])
    return row


def afresh(x: Any) -> Any:
    """The same elements for a step of its own, with -0.0 as 0.0.

    What two steps make alike the assembler makes once and keeps, and a wide copy of a narrow tile
    takes twice its registers. So each step makes a copy of its own, and the narrow tile is kept.
    """
    return x + 0.0 if _is_narrow(x) else x


def once_more(x: Any) -> Any:
    """The same for a third step, with -inf in place of a NaN."""
    return tw.maximum(x, -math.inf) if _is_narrow(x) else x


def _is_narrow(x: Any) -> bool:
    """Whether a tile has floats that are computed with in f32."""
    return bool(x.dtype == f16 or x.dtype == bf16)


def in_lanes(tile: Any, lanes: int, dtype: Any) -> Any:
    """A tile of rows as [row, load, lane, neighbour], as a tile of this dtype is read.

    A thread reads 16 bytes at once, and the next are those of the next thread. So with a lane for
    each thread of a row, a reduction along the second and the last axis needs no other thread.
    """
    rows, columns = tile.shape
    neighbours = min(2 if dtype == f64 else 4 if dtype == f32 else 8, columns // lanes)
    return tile.reshape(rows, columns // (lanes * neighbours), lanes, neighbours)


def normal_share(x: Any) -> Any:
    """`x * (share of a normal distribution below x)`, which is GELU; of f32."""
    a = tw.minimum(tw.abs(x), NO_TAIL, nan=True)
    t = quotient(1.0, 1.0 + 0.4 * a)
    exponent = tw.full(x.shape, TAIL[-1], x.dtype)
    for power in tw.static_range(len(TAIL) - 2, -1, -1):
        exponent = exponent * t + TAIL[power]
    beyond = t * power_of_2(exponent - a * a * (LOG2_E / 2))
    return tw.maximum(x, 0.0, nan=True) - a * beyond
