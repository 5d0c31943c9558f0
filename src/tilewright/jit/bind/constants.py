"""Numbers and constants of a call, converted once, as keys and launches hold them."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np

from tilewright.dtypes import DType, dtype_of_numpy
from tilewright.frontend.signature.specialization import ExactFloat, NamedConstant
from tilewright.given import as_int, narrowed, plain_number

__all__ = ["constant_of", "exact_number", "type_name"]


def constant_of(kind: type, value: Any) -> Any:
    """The value as a specialisation holds it; raises `TypeError` for one of another type."""
    if issubclass(kind, Enum):
        if not isinstance(value, kind):
            raise TypeError
        return NamedConstant(value)
    return _CONSTANTS[kind](value)


def type_name(kind: type) -> str:
    """What a message calls the type of a constant."""
    return {"Callable": "function"}.get(kind.__name__, kind.__name__)


def exact_number(value: Any) -> int | float | None:
    """The number that an object is, of Python's own types; None if it is none."""
    kind = type(value)
    if issubclass(kind, np.generic):
        return _exact_of_numpy(value)
    number: int | float | None = plain_number(value) if issubclass(kind, (int, float)) else None
    return number


def _exact_of_numpy(value: np.generic[Any]) -> int | float | None:
    """The same of a scalar of NumPy or ml_dtypes: dates, spans of time and texts are none."""
    dtype = dtype_of_numpy(value.dtype)
    if dtype is None and value.dtype.kind != "f":  # of which some are wider than any of ours
        return None
    item = np.asarray(value).item()  # of a subclass's own `item` nothing is asked
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
    return str.__str__(value)  # a subclass may show itself otherwise


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
