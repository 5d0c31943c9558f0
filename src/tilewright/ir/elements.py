"""Bit patterns of elements, as the constant table and float attributes hold them.

Numbers are rounded to the element as NumPy (ml_dtypes) rounds them; integers are taken modulo their
width, so that signed and unsigned readings of the same bits are encoded identically.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.dtypes import Element
from tilewright.ir.types import TileType

__all__ = [
    "E5M3_NUMBERS",
    "constant_bytes",
    "element_bits",
    "numbers_of_bits",
    "numbers_of_bytes",
]

_TF32_DROPPED = 13  # mantissa bits of f32 that tf32 lacks


def constant_bytes(value: Any, type_: TileType) -> bytes:
    """Return a constant's raw data: one element for a number, else all in row-major order."""
    element = type_.element
    assert isinstance(element, Element), "a constant holds numbers"
    bits = element_bits(np.asarray(value).reshape(-1), element)
    if element is Element.I1:
        return _truth_bytes(bits)
    stored = bits.astype("<u8").view(np.uint8).reshape(-1, 8)[:, : _stored_bytes(element)]
    return stored.tobytes()


def element_bits(values: Any, element: Element) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Return the bits of numbers held as `element`, in the low bits of 64."""
    if element.is_integer:
        mask = (1 << element.bits) - 1
        held = np.asarray(values).reshape(-1)
        if held.dtype.kind in "biu":
            return held.astype(np.uint64) & np.uint64(mask)
        return np.array([int(item) & mask for item in held.tolist()], np.uint64)
    held = np.asarray(values)
    if element is Element.FNV8E5M3FNU:
        return (held if held.dtype == element.numpy else _round_to_e5m3(held)).astype(np.uint64)
    with np.errstate(over="ignore", invalid="ignore"):
        held = held.astype(element.numpy)
    bits = held.view(np.dtype(f"u{held.itemsize}")).astype(np.uint64)
    return _round_to_tf32(bits) if element is Element.TF32 else bits


def numbers_of_bits(
    bits: np.ndarray[Any, np.dtype[np.uint64]], element: Element
) -> np.ndarray[Any, Any]:
    """Return the numbers that bits represent, in NumPy's type; the inverse of `element_bits`."""
    if element is Element.TF32:
        return (bits.astype(np.uint32) << _TF32_DROPPED).view(np.float32)
    if element is Element.I4:
        return ((bits.astype(np.int8) << 4) >> 4).astype(element.numpy)
    narrow = (bits & np.uint64((1 << element.bits) - 1)).astype(f"u{element.numpy.itemsize}")
    return narrow.view(element.numpy)


def numbers_of_bytes(data: bytes, element: Element) -> np.ndarray[Any, Any] | None:
    """Return the numbers in a constant's raw data, or None if bytes are left over.

    The inverse of `constant_bytes`. Truth values fill whole bytes, so up to seven more may be
    returned.
    """
    if element is Element.I1:
        return np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little").view(np.bool_)
    width = _stored_bytes(element)
    if len(data) % width:
        return None
    parts = np.frombuffer(data, np.uint8).reshape(-1, width)
    bits = np.zeros((len(parts), 8), np.uint8)
    bits[:, :width] = parts
    return numbers_of_bits(bits.view("<u8")[:, 0], element)


def _round_to_tf32(bits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Round f32 bits to the 19 bits of tf32, ties to even; infinities and NaNs are truncated."""
    finite = (bits >> 23 & 0xFF) != 0xFF
    half = (1 << (_TF32_DROPPED - 1)) - 1 + (bits >> _TF32_DROPPED & 1)
    return np.asarray(np.where(finite, bits + half, bits) >> _TF32_DROPPED)


def _numbers_of_e5m3() -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return the numbers of bit patterns 0 to 254, ascending; 255 is the only NaN."""
    bits = np.arange(255)
    exponent, fraction = bits >> 3, bits & 7
    normal = (8 + fraction) * 2.0 ** (exponent - 18)
    return np.where(exponent == 0, fraction * 2.0**-17, normal).astype(np.float32)


# Numbers of fnv8E5M3FNU by bit pattern; NumPy has no type for this format.
E5M3_NUMBERS = np.append(_numbers_of_e5m3(), np.float32(np.nan))
_E5M3_NAN = 255


def _round_to_e5m3(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the bits of the nearest number, ties to even; NaN if negative or too large."""
    numbers = np.asarray(values, np.float64)
    known = E5M3_NUMBERS[:_E5M3_NAN].astype(np.float64)
    between = (known[:-1] + known[1:]) / 2
    below, above = (np.searchsorted(between, numbers, side) for side in ("left", "right"))
    nearest = np.where(below % 2 == 0, below, above)
    limit = known[-1] + (known[-1] - known[-2]) / 2
    return np.where((numbers >= 0) & (numbers < limit), nearest, _E5M3_NAN)


def _truth_bytes(bits: np.ndarray[Any, Any]) -> bytes:
    """Pack truth values: one fills a whole byte, several take a bit each from the lowest up."""
    if len(bits) == 1:
        return b"\xff" if bits[0] else b"\x00"
    return np.packbits(bits.astype(np.uint8), bitorder="little").tobytes()


def _stored_bytes(element: Element) -> int:
    return 3 if element is Element.TF32 else max(element.bits // 8, 1)
