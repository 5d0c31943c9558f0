"""Conversion of constants to the exact values that specialisations hold.

A key, a launch check and a packed parameter use the converted value, never the object itself.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np

from tilewright.dtypes import DType, dtype_of_numpy
from tilewright.frontend.signature.specialization import ExactFloat, NamedConstant
from tilewright.given import as_int, narrowed, plain_number

__all__ = ["constant_of", "exact_number"]


def constant_of(kind: type, value: Any) -> Any:
    """Convert a constant to its form in a specialisation; raises `TypeError` for another type."""
    if issubclass(kind, Enum):
        if not isinstance(value, kind):
            raise TypeError
        return NamedConstant(value)
    return _CONSTANTS[kind](value)


def exact_number(value: Any) -> int | float | None:
    """Convert a number to Python's exact `bool`, `int` or `float`; None for any other object."""
    kind = type(value)
    if not issubclass(kind, np.generic):
        return plain_number(value) if issubclass(kind, (int, float)) else None
    dtype = dtype_of_numpy(value.dtype)
    if dtype is None and value.dtype.kind != "f":  # long doubles are floats without a dtype of ours
        return None  # a date, a time span or a string
    item = np.asarray(value).item()  # bypasses an `item` that a subclass overrides
    return item if type(item) in (bool, int, float) else narrowed(item)


def _integer(value: Any) -> int:
    if isinstance(value, (bool, np.bool_)):
        raise TypeError
    return as_int(value)


def _truth(value: Any) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError
    return bool(value)


def _float(value: Any) -> ExactFloat:
    number = exact_number(value)
    if type(number) is bool:
        raise TypeError
    return ExactFloat(as_int(value) if number is None else number)


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return str.__str__(value)  # bypasses a `__str__` that a subclass overrides


def _dtype(value: Any) -> type[DType]:
    if not (isinstance(value, type) and issubclass(value, DType) and hasattr(value, "element")):
        raise TypeError
    return value


def _function(value: Any) -> NamedConstant:
    if not callable(value):
        raise TypeError
    return NamedConstant(value)


_CONSTANTS: dict[Any, Callable[[Any], Any]] = {
    int: _integer,
    bool: _truth,
    float: _float,
    str: _string,
    DType: _dtype,
    Callable: _function,
}
