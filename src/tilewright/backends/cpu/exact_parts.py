"""Sums and products of f64 numbers as two parts, whose sum is exact: the result and its error.

The parts are exact where no number overflows and no part of a product is denormal.
"""

from __future__ import annotations

from typing import Any

__all__ = ["exact_product", "exact_sum"]

Array = Any


def exact_sum(x: Array, y: Array) -> tuple[Array, Array]:
    """Return a sum and its rounding error."""
    total = x + y
    above = total - x
    return total, (x - (total - above)) + (y - above)


def exact_product(x: Array, y: Array) -> tuple[Array, Array]:
    """Return a product and its rounding error, by the halves of its operands."""
    product = x * y
    (x_high, x_low), (y_high, y_low) = _halves(x), _halves(y)
    above = ((product - x_high * y_high) - x_low * y_high) - x_high * y_low
    return product, x_low * y_low - above


def _halves(x: Array) -> tuple[Array, Array]:
    scaled = x * 134217729.0  # 2**27 + 1 keeps the upper 26 bits
    high = scaled - (scaled - x)
    return high, x - high
