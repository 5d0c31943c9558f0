"""Conversion of scalars to the exact numbers that launches hold, and arguments in messages.

Each argument is converted once, to an exact `bool`, `int` or `float`. Launch checks, keys and
packed parameters use the converted value, never the object itself.
"""

from __future__ import annotations

import math
from typing import Any

from tilewright.dtypes import DType, bool_, limits
from tilewright.frontend.signature.constants import exact_number
from tilewright.given import shown
from tilewright.runtime.memory.partition import HostPartition
from tilewright.runtime.memory.tensor import Tensor

__all__ = ["Unfit", "described", "number_of"]


class Unfit(Exception):
    """A value that is no scalar of a dtype, with the reason."""


def number_of(value: Any, dtype: type[DType]) -> int | float:
    """Convert a scalar argument and check it against its dtype's range; raises `Unfit`."""
    number = exact_number(value)
    kind = type(number)
    is_bool, is_integer = dtype is bool_, dtype.element.is_integer
    if number is None or (kind is bool) is not is_bool or (kind is float and is_integer):
        given = described(value if number is None else number)
        raise Unfit(f"is a scalar of {dtype.label}, not {given}")
    low, high = limits(dtype)
    if not low <= number <= high and abs(number) != math.inf and number == number:
        raise Unfit(f"is {dtype.label}: {shown(number)} is outside {low:g} to {high:g}")
    return number


def described(value: Any) -> str:
    """Describe an argument in a message."""
    if isinstance(value, Tensor):
        return f"a tensor of {value.dtype.label} with shape {value.shape}"
    if isinstance(value, HostPartition):
        return "a plain partition"
    if isinstance(value, (bool, int, float, str, type(None))):
        return shown(value)
    return f"an object of type {type(value).__name__}"
