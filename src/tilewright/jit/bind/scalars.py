"""Scalar arguments and constants: type and range checks.

Each argument is converted once, to an exact `bool`, `int` or `float`. Launch checks, keys and
packed parameters use the converted value, never the object itself.
"""

from __future__ import annotations

import math
from typing import Any

from tilewright.dtypes import DType, bool_, limits
from tilewright.frontend.signature.signature import ConstParam, GroupParam, ScalarParam
from tilewright.given import shown
from tilewright.jit.bind.binding import Binding, described, refused
from tilewright.jit.bind.constants import constant_of, exact_number, type_name

__all__ = ["Unfit", "bind_const", "bind_group", "bind_scalar", "number_of"]


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


def bind_scalar(binding: Binding, param: ScalarParam, value: Any) -> None:
    """Bind a scalar argument."""
    try:
        binding.scalars[param.name] = number_of(value, binding.dtype(param.dtype))
    except Unfit as error:
        raise refused(binding, param.name, str(error)) from None


def bind_group(binding: Binding, param: GroupParam, value: Any) -> None:
    """Bind a tuple or a dataclass of scalars, each by itself."""
    names = param.field_names
    kind: Any = param.kind
    if not isinstance(value, kind):
        wanted = f"a tuple of {len(param.members)}" if kind is tuple else kind.__name__
        raise refused(binding, param.name, f"is {wanted}, not {described(value)}")
    items = [getattr(value, name) for name in names] if names else [*value]
    if len(items) != len(param.members):
        raise refused(
            binding, param.name, f"is a tuple of {len(param.members)}, but {len(items)} are given"
        )
    for member, item in zip(param.members, items, strict=True):
        bind = bind_scalar if isinstance(member, ScalarParam) else bind_group
        bind(binding, member, item)  # type: ignore[arg-type]


def bind_const(binding: Binding, param: ConstParam, value: Any) -> None:
    """Bind a constant, which is part of the specialisation."""
    try:
        binding.constants[param.name] = constant_of(param.type, value)
    except (TypeError, OverflowError):
        wanted = type_name(param.type)
        raise refused(
            binding, param.name, f"is a constant of type {wanted}, not {shown(value)}"
        ) from None
