"""Float formats that NumPy and ml_dtypes lack, held as bits: the unsigned float of 5 and 3 bits.

Its bits are ordered as its numbers, so rounding is a search: 8 bits, no sign, no infinity, exponent
bias 15, all bits set for NaN. Numbers that are too large become the largest; negative numbers
become zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.dtypes import Element
from tilewright.ir.attributes import Rounding

__all__ = ["decoded", "encoded", "held", "numbers"]

Array = Any  # an array, or a NumPy scalar where all elements are equal

_NAN = 0xFF


def _table() -> Array:
    bits = np.arange(256)
    exponent, mantissa = bits >> 3, bits & 7
    denormal = np.ldexp(mantissa / 8, -14)
    found = np.where(exponent == 0, denormal, np.ldexp(1 + mantissa / 8, exponent - 15))
    found[_NAN] = np.nan
    return found.astype(np.float32)


_NUMBERS = _table()
_FINITE = _NUMBERS[:_NAN].astype(np.float64)
_HALFWAY = (_FINITE[:-1] + _FINITE[1:]) / 2


def decoded(bits: Array) -> Array:
    """Return the numbers of bit patterns, as f32, which holds all of them."""
    return _NUMBERS[bits]


def encoded(x: Array, mode: Rounding = Rounding.NEAREST_EVEN) -> Array:
    """Return the bits of numbers, rounded once."""
    wide = np.clip(x.astype(np.float64), 0, _FINITE[-1])
    if mode is Rounding.POSITIVE_INF:
        found = np.searchsorted(_FINITE, wide)
    elif mode is Rounding.NEAREST_EVEN:
        below, above = np.searchsorted(_HALFWAY, wide), np.searchsorted(_HALFWAY, wide, "right")
        found = np.where(below % 2 == 0, below, above)  # they differ at a tie
    else:
        found = np.searchsorted(_FINITE, wide, "right") - 1
    return np.where(np.isnan(wide), _NAN, found).astype(np.uint8)[()]


def numbers(x: Array, element: Element) -> Array:
    """Return elements as numbers of a NumPy type."""
    return decoded(x) if element.is_held_as_bits else x


def held(x: Array, element: Element) -> Array:
    """Round numbers to the representation of an element; a zero scale becomes the least scale."""
    if element.is_held_as_bits:
        return encoded(x)
    if element is Element.F8E8M0FNU:
        x = np.where(x == 0, 2.0**-127, x)
    return np.asarray(x).astype(element.numpy)[()]
