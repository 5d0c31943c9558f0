"""Conversions between integers and floats, and those that only some formats have."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tilewright.backends.cpu.faults import report_element
from tilewright.backends.cpu.floats import nearest
from tilewright.backends.cpu.scalars import limits

__all__ = [
    "cut",
    "cut_saturating",
    "float_of_integer",
    "power_of_two_above",
    "power_of_two_below",
    "sticky",
]

Array = Any  # an array, or a NumPy scalar where all elements are equal

_E8M0 = np.dtype(ml_dtypes.float8_e8m0fnu)


def cut(site: int, x: Array, dtype: np.dtype[Any], bits: int) -> Array:
    """Truncate floats to integers of a width, signed as the dtype; overflow is reported."""
    wide = x.astype(np.float64)
    low, high = _open_range(dtype, bits)
    wrong = ~((wide > low) & (wide < high))
    if low == -(2.0**63):  # the bound itself fits, and f64 has no number between it and the next
        wrong &= wide != low
    if np.any(wrong):
        report_element(site, wrong, f"cuts {{}}, which does not fit in {bits} bits", wide)
    return wide.astype(dtype)


def cut_saturating(x: Array, dtype: np.dtype[Any], bits: int) -> Array:
    """Truncate floats to integers of a width; too large gives the limit, NaN gives 0."""
    wide = np.trunc(x.astype(np.float64))
    least, greatest = (dtype.type(end) for end in limits(bits, dtype.kind == "i"))
    low, high = _open_range(dtype, bits)
    inside = np.where((wide > low) & (wide < high), wide, 0.0).astype(dtype)
    return np.where(wide <= low, least, np.where(wide >= high, greatest, inside))


def _open_range(dtype: np.dtype[Any], bits: int) -> tuple[float, float]:
    """Return exclusive bounds of the floats that fit after truncation."""
    low, high = limits(bits, dtype.kind == "i")
    return float(low) - 1.0, float(high) + 1.0


def float_of_integer(x: Array, dtype: np.dtype[Any]) -> Array:
    """Convert integers, in the signedness of their array, to floats, rounding to nearest even."""
    return x.astype(dtype) if dtype in (np.float32, np.float64) else nearest(sticky(x), dtype)


def sticky(x: Array) -> Array:
    """Convert integers to f64 with a sticky bit, so that narrowing to 16 bits rounds once."""
    if x.dtype.itemsize == 8:
        # Such short formats need only a sticky bit for everything below the 16th.
        lost = (x & x.dtype.type(0xFFFF)) != 0
        short = (x | (lost.astype(x.dtype) << x.dtype.type(16))) & ~x.dtype.type(0xFFFF)
        large = (x >= x.dtype.type(1 << 40)) | (x.astype(np.float64) <= -(2.0**40))
        x = np.where(large, short, x)
    return x.astype(np.float64)


def power_of_two_below(x: Array) -> Array:
    """Return the power of two at or below each number, in the format of scales."""
    _, exponent = np.frexp(x.astype(np.float64))
    return _scale(x, exponent - 1)


def power_of_two_above(x: Array) -> Array:
    """Return the power of two at or above each number, in the format of scales."""
    mantissa, exponent = np.frexp(x.astype(np.float64))
    return _scale(x, np.where(mantissa == 0.5, exponent - 1, exponent))


def _scale(x: Array, exponent: Array) -> Array:
    inside = np.where(x > 0, np.clip(exponent, -127, 127), -127)
    exact = np.where(np.isinf(x) & (x > 0), 2.0**127, np.ldexp(1.0, inside))
    return np.where(np.isnan(x), np.nan, exact).astype(np.float32).astype(_E8M0)
