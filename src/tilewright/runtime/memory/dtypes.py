"""The dtypes that a tensor can have in memory, and their elements as bytes."""

from __future__ import annotations

from math import isfinite, isnan
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tilewright.dtypes import IN_TILES_ONLY, AnyDType, DType, dtype_of_numpy, f8e8m0fnu, numpy_dtype
from tilewright.errors import LaunchError
from tilewright.given import narrowed, plain_number, shown

__all__ = ["check_roundable", "element_bytes", "memory_dtype"]


_NUMBERS = "biufV"  # kinds of NumPy's dtypes; those of ml_dtypes are the last
_SEEN: set[Any] = set()  # classes known to be dtypes of tensors


def memory_dtype(dtype: Any) -> type[DType]:
    """The dtype of tensors for a given dtype; refuses one that memory cannot have."""
    found: type[DType] | None = None
    if type(dtype) is type and dtype in _SEEN:
        return cast("type[DType]", dtype)
    if isinstance(dtype, type) and issubclass(dtype, DType):
        found = dtype
    elif _is_numpy(dtype):
        found = dtype_of_numpy(np.dtype(dtype))
    if found is None:
        raise LaunchError(f"{shown(dtype)} is no dtype: say tw.f32, tw.i32 or the like")
    if issubclass(found, AnyDType) or found is DType:
        raise LaunchError(f"{found.__name__} stands for any dtype and has no elements of its own")
    if found in IN_TILES_ONLY:
        raise LaunchError(f"{found.label} lives in tiles only: in memory, {IN_TILES_ONLY[found]}")
    _SEEN.add(found)
    return found


def _is_numpy(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) or (
        isinstance(dtype, type) and issubclass(dtype, np.generic)
    )


def check_roundable(dtype: type[DType]) -> None:
    """Refuse a dtype that has no default rounding."""
    if dtype is f8e8m0fnu:
        raise LaunchError(
            "f8e8m0fnu holds powers of two, not zero, and numbers between two have no default"
            ' rounding: convert in a kernel, `.astype(tw.f8e8m0fnu, rounding="zero")` or "up"'
        )


def element_bytes(value: Any, dtype: type[DType]) -> bytes:
    """One element as bytes: a number that the dtype represents, or rounds to one that it does."""
    refused = LaunchError(f"{shown(value)} is no {dtype.label}")
    try:
        given = np.array(plain_number(value))
        if given.shape or given.dtype.kind not in _NUMBERS:
            raise refused
        with np.errstate(all="ignore"):
            element = given.astype(numpy_dtype(dtype), casting="unsafe")
        if not _is_kept(given, element, dtype):
            raise refused
    except Exception:  # noqa: BLE001 (of an object that NumPy asks for its number)
        raise refused from None
    return element.tobytes()


def _is_kept(given: npt.NDArray[Any], element: npt.NDArray[Any], dtype: type[DType]) -> bool:
    """Whether an element is the given number, or for a float the nearest."""
    if dtype.element.is_integer:
        return bool(element == given)
    kept = float(element)
    # A number out of range, and a zero in a dtype without one, change into another value.
    return isfinite(kept) or kept == narrowed(given[()]) or (isnan(kept) and isnan(float(given)))
