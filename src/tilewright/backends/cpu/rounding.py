"""Arithmetic in the rounding modes that NumPy lacks: towards zero, down and up.

The nearest result is computed first; where it lies on the wrong side of the exact one, its
neighbour is taken. The side is decided exactly. For operands shorter than f64 this is arithmetic in
f64: their product is exact, and the rounding error of a sum is an f64 number again. Products,
quotients and roots of f64 itself are decided with fractions, element by element.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import isfinite
from typing import Any

import numpy as np

from tilewright.ir.attributes import Rounding

__all__ = [
    "DIRECTED",
    "Lost",
    "down",
    "lost_by_conversion",
    "lost_by_difference",
    "lost_by_fma",
    "lost_by_product",
    "lost_by_quotient",
    "lost_by_root",
    "lost_by_sum",
    "to_zero",
    "up",
]

Array = Any
Lost = Callable[..., Fraction]  # the exact result minus the rounded one, or a number of that sign


def lost_by_sum(rounded: Fraction, x: Fraction, y: Fraction) -> Fraction:
    """Return the error of `x + y`."""
    return x + y - rounded


def lost_by_difference(rounded: Fraction, x: Fraction, y: Fraction) -> Fraction:
    """Return the error of `x - y`."""
    return x - y - rounded


def lost_by_product(rounded: Fraction, x: Fraction, y: Fraction) -> Fraction:
    """Return the error of `x * y`."""
    return x * y - rounded


def lost_by_quotient(rounded: Fraction, x: Fraction, y: Fraction) -> Fraction:
    """Return the error of `x / y`, up to a positive factor."""
    return x / y - rounded


def lost_by_fma(rounded: Fraction, x: Fraction, y: Fraction, z: Fraction) -> Fraction:
    """Return the error of `x * y + z`."""
    return x * y + z - rounded


def lost_by_root(rounded: Fraction, x: Fraction) -> Fraction:
    """Return the error of the square root, up to a positive factor."""
    return x - rounded * rounded


def lost_by_conversion(rounded: Fraction, x: Fraction) -> Fraction:
    """Return the error of a conversion."""
    return x - rounded


def to_zero(lost: Lost, nearest: Array, *operands: Array) -> Array:
    """Return the result rounded towards zero."""
    side = _sides(lost, nearest, operands)
    beyond = np.where(np.signbit(nearest), side > 0, side < 0)
    return _moved(nearest, beyond, 0.0)


def down(lost: Lost, nearest: Array, *operands: Array) -> Array:
    """Return the result rounded towards minus infinity."""
    return _moved(nearest, _sides(lost, nearest, operands) < 0, -np.inf)


def up(lost: Lost, nearest: Array, *operands: Array) -> Array:
    """Return the result rounded towards infinity."""
    return _moved(nearest, _sides(lost, nearest, operands) > 0, np.inf)


# Correction of the nearest result, by rounding mode.
DIRECTED = {Rounding.ZERO: to_zero, Rounding.NEGATIVE_INF: down, Rounding.POSITIVE_INF: up}


def _moved(nearest: Array, beyond: Array, towards: float) -> Array:
    neighbour = np.nextafter(nearest, nearest.dtype.type(towards))
    return np.where(beyond, neighbour, nearest)


def _sides(lost: Lost, nearest: Array, operands: tuple[Array, ...]) -> Array:
    """Return the sign of the exact result minus the nearest one, for each element."""
    side = _SIDES[lost]
    if lost in _ONLY_SHORT and nearest.dtype == np.float64:
        return _exact_sides(lost, nearest, operands)
    rounded = nearest.astype(np.float64)
    if lost is lost_by_conversion and operands[0].dtype.kind in "iu":
        return _integer_sides(rounded, operands[0])
    wide = [operand.astype(np.float64) for operand in operands]
    found = side(rounded, *wide)
    # On overflow the exact result is finite, unless a division by zero gave infinity.
    found = np.where(np.isinf(rounded), -np.sign(rounded), found)
    counts = ~np.isnan(rounded)
    for number in wide:
        counts = counts & np.isfinite(number)
    if lost is lost_by_quotient:
        counts = counts & (np.isfinite(rounded) | (wide[1] != 0))
    return np.where(counts, found, 0).astype(np.int8)


def _integer_sides(rounded: Array, x: Array) -> Array:
    """Do the same for integers, whose rounded values may lie outside their range."""
    limit = 2.0 ** (8 * x.dtype.itemsize - (x.dtype.kind == "i"))
    above, below = rounded >= limit, rounded < -limit
    whole = np.where(above | below, 0, rounded).astype(x.dtype)
    side = (x > whole).astype(np.int8) - (x < whole)
    return np.where(above, np.int8(-1), np.where(below, np.int8(1), side))


def _side_of_sum(rounded: Array, x: Array, y: Array) -> Array:
    """Return the sign of `x + y - rounded`, exactly: the f64 sum minus its error is exact."""
    total = x + y
    above = total - x
    error = (x - (total - above)) + (y - above)
    rest = total - rounded
    return np.sign(np.where(rest == 0, error, rest))


# Exact signs of the error for numbers in f64, by operation.
_SIDES: dict[Lost, Callable[..., Array]] = {
    lost_by_sum: _side_of_sum,
    lost_by_difference: lambda rounded, x, y: _side_of_sum(rounded, x, -y),
    lost_by_product: lambda rounded, x, y: np.sign(x * y - rounded),
    lost_by_quotient: lambda rounded, x, y: _side_of_sum(0.0, x, -rounded * y) * np.sign(y),
    lost_by_fma: lambda rounded, x, y, z: _side_of_sum(rounded, x * y, z),
    lost_by_root: lambda rounded, x: np.sign(x - rounded * rounded),
    lost_by_conversion: lambda rounded, x: np.sign(x - rounded),
}
_ONLY_SHORT = (lost_by_product, lost_by_quotient, lost_by_fma, lost_by_root)


def _exact_sides(lost: Lost, nearest: Array, operands: tuple[Array, ...]) -> Array:
    """Do the same with fractions."""

    def side(rounded: Any, *numbers: Any) -> int:
        if not all(isfinite(number) for number in numbers) or rounded != rounded:
            return 0
        if not isfinite(rounded):
            # On overflow the exact result is finite, unless a division by zero gave infinity.
            return 0 if lost is lost_by_quotient and numbers[1] == 0 else -1 if rounded > 0 else 1
        exact = (Fraction(number) for number in (rounded, *numbers))
        difference = lost(*exact)
        return (difference > 0) - (difference < 0)

    columns = (_numbers(array) for array in (nearest, *operands))
    return np.asarray(np.frompyfunc(side, 1 + len(operands), 1)(*columns), np.int8)


def _numbers(array: Array) -> Array:
    """Return the elements as exact Python numbers."""
    exact = array if array.dtype.kind in "iu" else array.astype(np.float64)
    return np.asarray(exact).astype(object)
