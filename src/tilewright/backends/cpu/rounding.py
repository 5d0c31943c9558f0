"""Arithmetic in the rounding modes that NumPy lacks: towards zero, down and up.

The nearest result is computed first; where it lies on the wrong side of the exact one, its
neighbour is taken. The side is decided exactly. For operands shorter than f64 this is arithmetic in
f64: their product is exact, and the rounding error of a sum is an f64 number again. A product of
f64 is the exact sum of two f64 numbers, once exponents are set aside, so the sign of a sum of four
decides for products, quotients, roots and fused operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.backends.cpu.exact_parts import exact_product, exact_sum
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
Lost = Callable[..., Array]  # the sign of the exact result minus the rounded one, from f64 numbers


def lost_by_sum(rounded: Array, x: Array, y: Array) -> Array:
    """Return the sign of `x + y - rounded`: the f64 sum minus its error is exact."""
    total, error = exact_sum(x, y)
    rest = total - rounded
    return np.sign(np.where(rest == 0, error, rest))


def lost_by_difference(rounded: Array, x: Array, y: Array) -> Array:
    """Return the sign of `x - y - rounded`."""
    return lost_by_sum(rounded, x, -y)


def lost_by_product(rounded: Array, x: Array, y: Array) -> Array:
    """Return the sign of `x * y - rounded`."""
    return lost_by_fma(rounded, x, y, np.float64(0))


def lost_by_quotient(rounded: Array, x: Array, y: Array) -> Array:
    """Return the sign of `x / y - rounded`."""
    return lost_by_fma(np.float64(0), -rounded, y, x) * np.sign(y)


def lost_by_fma(rounded: Array, x: Array, y: Array, z: Array) -> Array:
    """Return the sign of `x * y + z - rounded`."""
    (x, x_exponent), (y, y_exponent) = np.frexp(x), np.frexp(y)
    (z, z_exponent), (rounded, exponent) = np.frexp(z), np.frexp(rounded)
    product, rest = exact_product(x, y)
    exponents = (
        np.where(product == 0, _NONE, x_exponent + y_exponent),
        np.where(z == 0, _NONE, z_exponent),
        np.where(rounded == 0, _NONE, exponent),
    )
    top = np.maximum(np.maximum(*exponents[:2]), exponents[2])
    # A number so far below the others that none of their digits meet counts by its sign alone.
    of_product, of_z, of_rounded = (np.maximum(each - top, _FAR) for each in exponents)
    parts = (np.ldexp(rest, of_product), np.ldexp(product, of_product))
    return _sign_of_sum(*parts, np.ldexp(z, of_z), -np.ldexp(rounded, of_rounded))


def lost_by_root(rounded: Array, x: Array) -> Array:
    """Return the sign of `sqrt(x) - rounded`, which is that of the difference of the squares."""
    return lost_by_fma(np.float64(0), -rounded, rounded, x)


def lost_by_conversion(rounded: Array, x: Array) -> Array:
    """Return the sign of `x - rounded`."""
    return np.sign(x - rounded)


# Exact signs for operands shorter than f64, whose products have no rounding error in f64.
_OF_SHORT: dict[Lost, Lost] = {
    lost_by_product: lambda rounded, x, y: np.sign(x * y - rounded),
    lost_by_quotient: lambda rounded, x, y: lost_by_sum(0.0, x, -rounded * y) * np.sign(y),
    lost_by_fma: lambda rounded, x, y, z: lost_by_sum(rounded, x * y, z),
    lost_by_root: lambda rounded, x: np.sign(x - rounded * rounded),
}
_NONE, _FAR = -10_000, -300  # exponents: of zero, and below all digits of the other numbers


def _sign_of_sum(*numbers: Array) -> Array:
    """Return the sign of an exact sum, kept as parts of which each outweighs all before it."""
    parts: list[Array] = []
    for number in numbers:
        rests: list[Array] = []
        for part in parts:
            number, rest = exact_sum(number, part)
            rests.append(rest)
        parts = [*rests, number]
    sign = np.sign(parts[0])
    for part in parts[1:]:
        sign = np.where(part == 0, sign, np.sign(part))
    return sign


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
    side = lost if nearest.dtype == np.float64 else _OF_SHORT.get(lost, lost)
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
