"""Float operations on NumPy arrays that are not one NumPy function.

Each op rounds once, to the dtype of its result: NumPy and ml_dtypes compute f16 and bf16 in f32,
which is wide enough that the second rounding is harmless for the four operations and the root.
Transcendental functions are computed in f64 and rounded once to shorter formats, since NumPy's f32
versions are off by up to 4 units in the last place; an op that asks for a GPU's approximation gets
those versions. `fma` is exact before its one rounding: the rounding errors of both steps are
carried along in f64. `rounding` has the directed modes.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import inf, isfinite
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.backends.cpu.exact_parts import exact_product
from tilewright.backends.cpu.halves import narrowed, widened
from tilewright.backends.cpu.pieces import PIECE, in_pieces, pieces
from tilewright.ir.attributes import Ordering, Predicate, Rounding

__all__ = [
    "COMPARE",
    "IN_F64",
    "flushed",
    "flushed_exp2",
    "fused",
    "greatest",
    "greatest_or_nan",
    "integer_power",
    "least",
    "least_or_nan",
    "nearest",
    "odd",
    "reciprocal_root",
    "tf32",
]

Array = Any  # an array, or a NumPy scalar where all elements are equal

_BF16 = np.dtype(ml_dtypes.bfloat16)
_F4 = np.dtype(ml_dtypes.float4_e2m1fn)
_LARGEST = {
    np.dtype(ml_dtypes.float8_e4m3fn): np.float32(448),
    np.dtype(ml_dtypes.float8_e5m2): np.float32(57344),
    _F4: np.float32(6),
}
_SMALLEST_NORMAL = np.float32(2.0**-126)
_MANY = 1 << 12  # elements of an array that is worth a look at its columns


# --- extrema ---------------------------------------------------------------------------------


@in_pieces
def greatest(x: Array, y: Array) -> Array:
    """Return the greater of two; the number beats a NaN, and -0 is less than +0."""
    return _greatest_zero(np.fmax(x, y), x, y)


@in_pieces
def greatest_or_nan(x: Array, y: Array) -> Array:
    """Return the greater of two, or NaN if either is NaN."""
    return _greatest_zero(np.maximum(x, y), x, y)


@in_pieces
def least(x: Array, y: Array) -> Array:
    """Return the lesser of two; the number beats a NaN, and -0 is less than +0."""
    return _least_zero(np.fmin(x, y), x, y)


@in_pieces
def least_or_nan(x: Array, y: Array) -> Array:
    """Return the lesser of two, or NaN if either is NaN."""
    return _least_zero(np.minimum(x, y), x, y)


def _greatest_zero(found: Array, x: Array, y: Array) -> Array:
    # NumPy returns either of two zeros. Their sum is -0 only if both are.
    if not _any(found == 0) or not _any(both := (x == 0) & (y == 0)):
        return found
    return np.where(both, x + y, found)


def _least_zero(found: Array, x: Array, y: Array) -> Array:
    if not _any(found == 0) or not _any(both := (x == 0) & (y == 0)):
        return found
    return np.where(both, -(-x + -y), found)


def _any(mask: Array) -> bool:
    """Whether any element is true: for a small array much faster than `np.any`."""
    return bool(np.count_nonzero(mask))


# --- comparison ------------------------------------------------------------------------------


def _ordered_not_equal(x: Array, y: Array) -> Array:
    return (x < y) | (x > y)


def _or_unordered(compare: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    def compared(x: Array, y: Array) -> Array:
        return compare(x, y) | (x != x) | (y != y)

    compared.__name__ = f"unordered_{compare.__name__}"
    return compared


_ORDERED: dict[Predicate, Callable[[Array, Array], Array]] = {
    Predicate.EQUAL: np.equal,
    Predicate.NOT_EQUAL: _ordered_not_equal,
    Predicate.LESS_THAN: np.less,
    Predicate.LESS_THAN_OR_EQUAL: np.less_equal,
    Predicate.GREATER_THAN: np.greater,
    Predicate.GREATER_THAN_OR_EQUAL: np.greater_equal,
}
# Functions by ordering and predicate.
COMPARE = {(Ordering.ORDERED, predicate): compare for predicate, compare in _ORDERED.items()} | {
    (Ordering.UNORDERED, predicate): np.not_equal
    if predicate is Predicate.NOT_EQUAL
    else _or_unordered(compare)
    for predicate, compare in _ORDERED.items()
}

# --- arithmetic ------------------------------------------------------------------------------


def flushed(x: Array) -> Array:
    """Flush denormal f32 numbers to zeros of their sign; an array without any is returned."""
    if x.size <= PIECE:
        return _flushed(x)
    return _flushed_pieces(x) if any(map(_has_small, pieces(x))) else x


def _flushed(x: Array) -> Array:
    is_kept = np.abs(x) >= _SMALLEST_NORMAL
    # A product with 0 keeps the sign, and NaN.
    return x if np.count_nonzero(is_kept) == is_kept.size else np.multiply(x, is_kept)


_flushed_pieces = in_pieces(_flushed)


def _has_small(x: Array) -> bool:
    """Whether denormal numbers, zeros or NaN are among some numbers."""
    return not np.abs(x).min() >= _SMALLEST_NORMAL


def flushed_exp2(x: Array) -> Array:
    """Return powers of two of f32 numbers, denormal ones flushed to zero.

    This is a GPU's approximation, so NumPy's own f32 function is exact enough. Padding of -inf
    behind the columns of a softmax is not computed.
    """
    columns = x.reshape(len(x), -1) if x.ndim and x.size >= _MANY else x
    width = _finite_columns(columns)
    if width == columns.shape[-1:]:
        return flushed(np.exp2(x))
    found = np.zeros(columns.shape, x.dtype)
    found[:, : width[0]] = flushed(np.exp2(columns[:, : width[0]]))
    return found.reshape(x.shape)


def _finite_columns(x: Array) -> tuple[int, ...]:
    """Return the number of columns up to the last that is not -inf throughout."""
    if x.ndim != 2 or x.shape[1] == 1 or x[0, -1] != -inf:
        return tuple(x.shape[-1:])
    places = np.flatnonzero(x[0] != -inf)
    width = int(places[-1]) + 1 if places.size else 0
    return (width,) if (x[:, width:] == -inf).all() else tuple(x.shape[-1:])


def _in_f64(function: np.ufunc) -> Callable[..., Array]:
    """Return a float function that computes in f64 and rounds once to the dtype of its operands.

    NumPy widens and narrows an array in chunks that stay in the cache, which is far cheaper than
    whole arrays of f64.
    """

    def computed(*operands: Array) -> Array:
        dtype = operands[0].dtype
        if dtype == np.float64:
            return function(*operands)
        if dtype == _BF16:
            return nearest(function(*(operand.astype(np.float64) for operand in operands)), dtype)
        shape = operands[0].shape
        if len(operands) > 1:
            shape = np.broadcast_shapes(*(operand.shape for operand in operands))
        if not shape:
            return function(*operands, dtype=np.float64).astype(dtype)
        out = np.empty(shape, dtype)
        return function(*operands, out=out, dtype=np.float64, casting="same_kind")

    computed.__name__ = f"wide_{function.__name__}"
    return computed


# Replacements of NumPy's transcendental functions.
IN_F64: dict[Any, Callable[..., Array]] = {
    function: _in_f64(function)
    for function in (
        np.arctan2, np.cos, np.cosh, np.exp, np.exp2, np.log, np.log2, np.power, np.sin, np.sinh,
        np.tan, np.tanh,
    )
}  # fmt: skip


@in_pieces
def reciprocal_root(x: Array) -> Array:
    """Return the reciprocal of the square root, rounded once."""
    root = 1.0 / np.sqrt(x.astype(np.float64))
    return root if x.dtype == np.float64 else nearest(root, x.dtype)


@in_pieces
def integer_power(x: Array, exponent: Array) -> Array:
    """Return `x` to the power of signed integers, computed in f64 and rounded once."""
    power = np.power(x.astype(np.float64), exponent.astype(np.float64))
    return power if x.dtype == np.float64 else nearest(power, x.dtype)


@in_pieces
def fused(x: Array, y: Array, z: Array) -> Array:
    """Return `x * y + z`, rounded once."""
    if x.dtype == np.float64:
        return _fused_f64(x, y, z)
    product = x.astype(np.float64) * y.astype(np.float64)
    total = product + z.astype(np.float64)
    if x.dtype == np.float32:
        single = total.astype(np.float32)
        if _is_rounded_once(product, z, total, single):
            return single
    return nearest(odd(total, _sum_error(product, z.astype(np.float64), total)), x.dtype)


def _is_rounded_once(x: Array, y: Array, total: Array, single: Array) -> bool:
    """Whether rounding the f64 sums to f32 gave correctly rounded results.

    Double rounding fails only where the f64 sum was inexact and lies halfway between two f32
    numbers, or where f32 is denormal.
    """
    risky = (total.view(np.int64) & np.int64(0x1FFFFFFF)) == np.int64(0x10000000)
    small = np.abs(single) < _SMALLEST_NORMAL
    if np.count_nonzero(small):
        risky = risky | (small & (total != 0))
    if not np.count_nonzero(risky):
        return True
    # A sum is exact if and only if both of its operands can be recovered from it.
    return not (
        np.count_nonzero(risky & (total - x != y)) or np.count_nonzero(risky & (total - y != x))
    )


def _sum_error(x: Array, y: Array, total: Array) -> Array:
    """Return the rounding error of a sum; exact unless the sum overflowed."""
    above = total - x
    error = (x - (total - above)) + (y - above)
    return np.where(np.isfinite(total), error, 0.0)


def _fused_f64(x: Array, y: Array, z: Array) -> Array:
    """Compute the exact product in two parts and the sum in three, the lesser two rounded to odd.

    Where a part overflows or is denormal, the sum is computed with fractions.
    """
    product, lost = exact_product(x, y)
    middle = z + lost
    total = product + middle
    errors = _sum_error(z, lost, middle), _sum_error(product, middle, total)
    error = errors[0] + errors[1]
    fused = total + odd(error, _sum_error(*errors, error))
    fused = np.where(fused == 0, product + z, fused)  # with the sign of a zero
    size = np.abs(product)
    is_risky = ~(size < _FAR_F64) | (np.maximum(np.abs(x), np.abs(y)) > _FAR_F64)
    is_risky |= (np.abs(z) > _FAR_F64) | ((size < _NEAR_F64) & (x != 0) & (y != 0))
    if not np.count_nonzero(is_risky):
        return fused
    numbers = np.broadcast_arrays(x, y, z)
    if not numbers[0].shape:
        return np.float64(_fused_number(float(x), float(y), float(z)))
    places = np.nonzero(np.broadcast_to(is_risky, numbers[0].shape))
    whole = np.array(np.broadcast_to(fused, numbers[0].shape))
    risky = zip(*(each[places] for each in numbers), strict=True)
    whole[places] = [_fused_number(*each) for each in risky]
    return whole


_FAR_F64, _NEAR_F64 = 2.0**990, 2.0**-900  # numbers in between split into exact parts


def _fused_number(x: float, y: float, z: float) -> float:
    if not (isfinite(x) and isfinite(y)):
        return x * y + z
    if not isfinite(z):
        return z
    total = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
    if not total:
        return x * y + z  # with the sign of a zero
    try:
        return float(total)
    except OverflowError:
        return inf if total > 0 else -inf


# --- conversion ------------------------------------------------------------------------------


def odd(x: Array, error: Array) -> Array:
    """Round `x + error` to odd, so that rounding once more, to fewer bits, rounds correctly."""
    integer = np.int64 if x.dtype == np.float64 else np.int32
    even = (x.view(integer) & integer(1)) == 0
    neighbour = np.nextafter(x, np.where(error > 0, np.inf, -np.inf).astype(x.dtype))
    return np.where((error != 0) & even, neighbour, x)


def nearest(x: Array, dtype: np.dtype[Any]) -> Array:
    """Convert floats to another dtype, rounded once to nearest even.

    The 8- and 4-bit formats saturate: numbers that are too large become the largest.
    """
    if x.dtype == np.float16 and dtype == np.float32:
        return widened(x)
    if x.dtype == np.float32 and dtype == np.float16:
        return narrowed(x)
    if dtype.itemsize > 1 and dtype != _BF16:
        return x.astype(dtype)
    if x.dtype == np.float64:
        single = x.astype(np.float32)
        error = np.where(np.isfinite(x), x - single, 0.0)
        x = odd(single, error)
    if dtype == _BF16:
        return x.astype(dtype)
    largest = _LARGEST[dtype]
    narrow = np.clip(x.astype(np.float32), -largest, largest)
    if dtype == _F4:  # it has no NaN
        narrow = np.where(np.isnan(narrow), largest, narrow)
    return narrow.astype(dtype)


def tf32(x: Array, mode: Rounding = Rounding.NEAREST_EVEN) -> Array:
    """Round floats to 10 bits of mantissa, held as f32; NaN and infinity stay."""
    if x.dtype == np.float64:
        single = x.astype(np.float32)
        x = odd(single, np.where(np.isfinite(x), x - single, 0.0))
    bits = np.asarray(x, np.float32).view(np.uint32)
    if mode is Rounding.NEAREST_AWAY:
        bits = bits + np.uint32(0x1000)
    elif mode is Rounding.NEAREST_EVEN:
        bits = bits + np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1))
    rounded = (bits & np.uint32(0xFFFFE000)).view(np.float32)
    return np.where(np.isfinite(x), rounded, np.asarray(x, np.float32))
