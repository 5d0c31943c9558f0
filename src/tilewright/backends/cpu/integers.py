"""Integer operations on NumPy arrays, which generated code calls for tiles.

Arrays are signed, one NumPy dtype for each width from 8 to 64 bits; an op that reads its bits
unsigned views them through `unsigned`. Tiles of truth values go through `each_bit`, which applies
the scalar definition, since their division is rare.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.backends.cpu.faults import report_element
from tilewright.backends.cpu.pieces import in_pieces
from tilewright.ir.attributes import Rounding

__all__ = [
    "DIVIDE",
    "checked",
    "divide_ceil",
    "divide_zero",
    "each_bit",
    "extended",
    "high_product",
    "require_count",
    "require_quotient",
    "require_reversible",
    "signed",
    "truncated",
    "unsigned",
]

Array = Any  # an array, or a NumPy scalar where all elements are equal

_UNSIGNED = {np.dtype(f"i{size}"): np.dtype(f"u{size}") for size in (1, 2, 4, 8)}
_SIGNED = {unsigned: signed for signed, unsigned in _UNSIGNED.items()}
_INT4 = np.dtype(ml_dtypes.int4)
_HIGH = 1 if sys.byteorder == "little" else 0  # the place of the high half in memory


def unsigned(x: Array) -> Array:
    """Return the same bits as unsigned integers."""
    return x.view(_UNSIGNED[x.dtype])


def signed(x: Array) -> Array:
    """Return the same bits as signed integers, the representation of tiles."""
    return x.view(_SIGNED[x.dtype])


def each_bit(definition: Callable[..., int], *operands: Array) -> Array:
    """Apply the definition on Python ints to truth values, element by element."""
    return np.asarray(np.frompyfunc(definition, len(operands), 1)(*operands), np.bool_)


# --- division --------------------------------------------------------------------------------


def require_quotient(site: int, x: Array, y: Array) -> None:
    """Report a zero divisor, and the one quotient that overflows."""
    if not np.all(y):
        wrong = np.broadcast_arrays(y == 0, x)[0]
        report_element(site, wrong, "divides by zero: {} / 0", x)
    low = np.iinfo(x.dtype).min
    if low < 0:
        wrong = (y == -1) & (x == low)
        if np.any(wrong):
            report_element(site, wrong, "overflows: {} / {}", x, y)


def divide_zero(x: Array, y: Array) -> Array:
    """Return the quotient truncated towards zero."""
    quotient = np.floor_divide(x, y)
    return quotient + ((quotient * y != x) & ((x < 0) != (y < 0)))


def divide_ceil(x: Array, y: Array) -> Array:
    """Return the quotient rounded up."""
    quotient = np.floor_divide(x, y)
    return quotient + (quotient * y != x)


# Quotients by rounding mode; divisors are checked before.
DIVIDE: dict[Rounding, Callable[[Array, Array], Array]] = {
    Rounding.ZERO: divide_zero,
    Rounding.NEGATIVE_INF: np.floor_divide,
    Rounding.POSITIVE_INF: divide_ceil,
}


def require_count(site: int, x: Array, count: Array) -> None:
    """Report a shift by the width or more."""
    bits = x.dtype.itemsize * 8
    wrong = (count < 0) | (count >= bits)
    if np.any(wrong):
        report_element(site, wrong, f"shifts by {{}}, and the width is {bits}", count)


# --- promises not to wrap --------------------------------------------------------------------


def checked(site: int, exact: Callable[[Any, Any], Any], x: Array, y: Array) -> None:
    """Report elements whose exact result leaves the range of the dtype.

    The corners of both ranges decide nearly every tile; only a tile that might wrap is computed
    exactly. `exact` is addition, subtraction, multiplication or a left shift.
    """
    info = np.iinfo(x.dtype)
    ends = [exact(p, q) for p in _ends(x) for q in _ends(y)]
    if info.min <= min(ends) and max(ends) <= info.max:
        return
    result = np.asarray(exact(_objects(x), _objects(y)), dtype=object)
    wrong = ((result < info.min) | (result > info.max)).astype(np.bool_)
    if np.any(wrong):
        what = f"wraps, and promises not to: {{}} is not in [{info.min}, {info.max}]"
        report_element(site, wrong, what, result)


def _ends(x: Array) -> tuple[int, int]:
    return int(np.min(x)), int(np.max(x))


def _objects(x: Array) -> Array:
    return np.asarray(x).astype(object)


# --- products and conversions ------------------------------------------------------------------


@in_pieces
@in_pieces
def high_product(x: Array, y: Array) -> Array:
    """Return the high half of the product of unsigned arrays."""
    bits = x.dtype.itemsize * 8
    if bits == 32 and (x.ndim or y.ndim):
        wide = np.multiply(x, y, dtype=np.uint64, order="C")
        return wide.view(np.uint32).reshape(*wide.shape, 2)[..., _HIGH]
    if bits < 64:
        wide = x.astype(np.uint64) * y.astype(np.uint64)
        wide >>= np.uint64(bits)
        return wide.astype(x.dtype)
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    x_high, x_low, y_high, y_low = x >> half, x & low, y >> half, y & low
    middle = x_high * y_low + (x_low * y_low >> half)
    carry = (middle & low) + x_low * y_high
    return x_high * y_high + (middle >> half) + (carry >> half)


def extended(x: Array, dtype: np.dtype[Any], is_signed: bool) -> Array:
    """Return the same integers in a wider dtype."""
    if x.dtype == np.bool_:
        wide = x.astype(dtype)
        return -wide if is_signed else wide
    if x.dtype == _INT4:
        wide = x.astype(np.int8).astype(dtype)
        return wide if is_signed else wide & dtype.type(15)
    return x.astype(dtype) if is_signed else unsigned(x).astype(dtype)


def truncated(x: Array, dtype: np.dtype[Any]) -> Array:
    """Return the low bits in a narrower dtype."""
    if dtype == np.bool_:
        return (x & x.dtype.type(1)) != 0
    if dtype == _INT4:
        low = (x & x.dtype.type(15)).astype(np.int8)
        return ((low ^ np.int8(8)) - np.int8(8)).astype(dtype)
    return x.astype(dtype)


def require_reversible(
    site: int, x: Array, dtype: np.dtype[Any], as_signed: bool, as_unsigned: bool
) -> None:
    """Report elements that a truncation changes, against its promise."""
    narrow = truncated(x, dtype)
    for is_signed, promised in ((True, as_signed), (False, as_unsigned)):
        wrong = extended(narrow, x.dtype, is_signed) != x
        if promised and np.any(wrong):
            report_element(site, wrong, "loses bits, and promises not to: {}", x)
