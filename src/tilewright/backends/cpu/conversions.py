"""Conversions between integers and floats, and the ones that only some formats have."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tilewright.backends.cpu.faults import report_element
from tilewright.backends.cpu.floats import nearest

__all__ = ["cut", "cut_saturating", "float_of_integer", "power_of_two_above", "power_of_two_below"]

Array = Any  # an array, or a NumPy scalar where all elements are alike

_E8M0 = np.dtype(ml_dtypes.float8_e8m0fnu)


def cut(site: int, x: Array, dtype: np.dtype[Any]) -> Array:
    """Floats cut to integers; one that does not fit is reported."""
    wide = x.astype(np.float64)
    low, high = _open_range(dtype)
    wrong = ~((wide > low) & (wide < high))
    if low == -(2.0**63):  # the bound itself fits, and f64 has nothing between it and the next
        wrong &= wide != low
    if np.any(wrong):
        report_element(site, wrong, f"cuts {{}}, which does not fit in {dtype.name}", wide)
    return wide.astype(dtype)


def cut_saturating(x: Array, dtype: np.dtype[Any]) -> Array:
    """Floats cut to integers; too large gives the limit, NaN gives 0."""
    wide = np.nan_to_num(np.trunc(x.astype(np.float64)), nan=0.0, posinf=np.inf, neginf=-np.inf)
    info = np.iinfo(dtype)
    low, high = _open_range(dtype)
    inside = np.where((wide > low) & (wide < high), wide, 0.0).astype(dtype)
    above = np.where(wide >= high, dtype.type(info.max), inside)
    return np.where(wide <= low, dtype.type(info.min), above)


def _open_range(dtype: np.dtype[Any]) -> tuple[float, float]:
    """Bounds that a float must lie strictly between to fit after it is cut."""
    info = np.iinfo(dtype)
    return (float(info.min) - 1.0, float(info.max) + 1.0)


def float_of_integer(x: Array, dtype: np.dtype[Any]) -> Array:
    """Integers, in the signedness of their array, as floats: rounded once to nearest even."""
    if dtype in (np.float32, np.float64):
        return x.astype(dtype)
    if x.dtype.itemsize == 8:
        # Formats this short need only know that something was lost below the 16th bit.
        lost = (x & x.dtype.type(0xFFFF)) != 0
        sticky = (x | (lost.astype(x.dtype) << x.dtype.type(16))) & ~x.dtype.type(0xFFFF)
        large = (x >= x.dtype.type(1 << 40)) | (x.astype(np.float64) <= -(2.0**40))
        x = np.where(large, sticky, x)
    return nearest(x.astype(np.float64), dtype)


def power_of_two_below(x: Array) -> Array:
    """The power of two at or below each number, in the format of scales."""
    _, exponent = np.frexp(x.astype(np.float64))
    return _scale(x, exponent - 1)


def power_of_two_above(x: Array) -> Array:
    """The power of two at or above each number, in the format of scales."""
    mantissa, exponent = np.frexp(x.astype(np.float64))
    return _scale(x, np.where(mantissa == 0.5, exponent - 1, exponent))


def _scale(x: Array, exponent: Array) -> Array:
    inside = np.where(x > 0, np.clip(exponent, -127, 127), -127)
    exact = np.where(np.isinf(x) & (x > 0), 2.0**127, np.ldexp(1.0, inside))
    return np.where(np.isnan(x), np.nan, exact).astype(np.float32).astype(_E8M0)
