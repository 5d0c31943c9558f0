"""Conversions between f16 and f32 by operations on whole arrays of bits.

NumPy converts each f16 number by itself, which takes longer than most arithmetic. Numbers are the
same here, to the last bit; arrays with infinity, NaN or overflow are left to NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.backends.cpu.pieces import in_pieces

__all__ = ["narrowed", "widened"]

Array = Any

_FEW = 64  # elements for which one call of NumPy is faster
_EXPONENT = np.int16(0x7C00)  # of infinity and NaN, in f16
_KEPT = np.int32(-0x70002000)  # bits of a sign, an exponent and a mantissa, moved to those of f32
_SCALE = np.float32(2.0**112)  # between the exponents of both formats
_LARGEST = np.float32(65520)  # from here on numbers overflow
_NORMAL = np.float32(2.0**-14)  # the least normal number of f16
_REBIAS = np.int32(0xFFF - (112 << 23))  # the other exponent, and almost half of the last place
_HALF = np.float32(0.5)  # its last place is that of denormal numbers of f16
_HALF_BITS = np.int32(0x3F000000)


@in_pieces
def widened(x: Array) -> Array:
    """Return f16 numbers as f32."""
    if x.size < _FEW or (x.view(np.int16) & _EXPONENT).max() == _EXPONENT:
        return x.astype(np.float32)
    wide = x.view(np.int16).astype(np.int32)  # the sign fills all higher bits
    wide <<= np.int32(13)
    wide &= _KEPT
    found = wide.view(np.float32)
    found *= _SCALE  # exact, also for denormal numbers
    return found


@in_pieces
def narrowed(x: Array) -> Array:
    """Return f32 numbers as f16, rounded to nearest even."""
    if x.size < _FEW:
        return x.astype(np.float16)
    size = np.abs(x)
    if not size.max() < _LARGEST:
        return x.astype(np.float16)
    is_small = size < _NORMAL
    bits = size.view(np.int32)
    found = bits >> np.int32(13)
    found &= np.int32(1)  # a tie goes to the even neighbour
    found += bits
    found += _REBIAS
    found >>= np.int32(13)
    if np.count_nonzero(is_small):
        size += _HALF
        bits -= _HALF_BITS
        bits ^= found
        bits &= np.negative(is_small.view(np.int8)).astype(np.int32)
        found ^= bits
    sign = x.view(np.int32) >> np.int32(16)
    sign &= np.int32(0x8000)
    found |= sign
    return found.astype(np.uint16).view(np.float16)
