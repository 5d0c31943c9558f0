"""Arithmetic in the rounding modes that NumPy lacks: towards zero, down and up.

The nearest result is computed first; where it lies on the wrong side of the exact one, its
neighbour is taken. Which side is decided exactly, with fractions, one element after the other: this
is slow, and right for every dtype.
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
Lost = Callable[..., Fraction]  # the exact result less the rounded one, or a number of that sign


def lost_by_sum(rounded: Fraction, x: Fraction, y: Fraction) -> Fraction:
    """For `x + y`."""
    return x + y - rounded


def lost_by_difference(rounded: Fraction, x: Fraction, y: Fraction) -> Fraction:
    """For `x - y`."""
    return x - y - rounded


def lost_by_product(rounded: Fraction, x: Fraction, y: Fraction) -> Fraction:
    """For `x * y`."""
    return x * y - rounded


def lost_by_quotient(rounded: Fraction, x: Fraction, y: Fraction) -> Fraction:
    """For `x / y`."""
    return x / y - rounded


def lost_by_fma(rounded: Fraction, x: Fraction, y: Fraction, z: Fraction) -> Fraction:
    """For `x * y + z`."""
    return x * y + z - rounded


def lost_by_root(rounded: Fraction, x: Fraction) -> Fraction:
    """For the square root."""
    return x - rounded * rounded


def lost_by_conversion(rounded: Fraction, x: Fraction) -> Fraction:
    """For a number in another format."""
    return x - rounded


def to_zero(lost: Lost, nearest: Array, *operands: Array) -> Array:
    """The result rounded towards zero."""
    side = _sides(lost, nearest, operands)
    beyond = np.where(np.signbit(nearest), side > 0, side < 0)
    return _moved(nearest, beyond, 0.0)


def down(lost: Lost, nearest: Array, *operands: Array) -> Array:
    """The result rounded towards minus infinity."""
    return _moved(nearest, _sides(lost, nearest, operands) < 0, -np.inf)


def up(lost: Lost, nearest: Array, *operands: Array) -> Array:
    """The result rounded towards infinity."""
    return _moved(nearest, _sides(lost, nearest, operands) > 0, np.inf)


# How the nearest result is moved under each mode.
DIRECTED = {Rounding.ZERO: to_zero, Rounding.NEGATIVE_INF: down, Rounding.POSITIVE_INF: up}


def _moved(nearest: Array, beyond: Array, towards: float) -> Array:
    neighbour = np.nextafter(nearest, nearest.dtype.type(towards))
    return np.where(beyond, neighbour, nearest)


def _sides(lost: Lost, nearest: Array, operands: tuple[Array, ...]) -> Array:
    """The sign of the exact result less the nearest one, for each element."""

    def side(rounded: Any, *numbers: Any) -> int:
        if not all(isfinite(number) for number in numbers) or rounded != rounded:
            return 0
        if not isfinite(rounded):
            # Overflow: the exact result is finite, unless a division by zero gave infinity.
            return 0 if lost is lost_by_quotient and numbers[1] == 0 else -1 if rounded > 0 else 1
        exact = (Fraction(number) for number in (rounded, *numbers))
        difference = lost(*exact)
        return (difference > 0) - (difference < 0)

    columns = (_numbers(array) for array in (nearest, *operands))
    return np.asarray(np.frompyfunc(side, 1 + len(operands), 1)(*columns), np.int8)


def _numbers(array: Array) -> Array:
    """Elements as Python numbers, exactly."""
    exact = array if array.dtype.kind in "iu" else array.astype(np.float64)
    return np.asarray(exact).astype(object)
