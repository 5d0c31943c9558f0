"""Scalar arguments and constants: of the right type and in range."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.dtypes import DType, bool_, limits
from tilewright.frontend.signature import ConstParam, GroupParam, ScalarParam
from tilewright.frontend.specialization import ExactFloat
from tilewright.jit.binding import Binding, described, refused

__all__ = ["Unfit", "bind_const", "bind_group", "bind_scalar", "number_of"]


class Unfit(Exception):
    """A value that is no scalar of a dtype; says why."""


def number_of(value: Any, dtype: type[DType]) -> int | float:
    """A number passed at launch, held to its dtype's range; raises `Unfit`."""
    if isinstance(value, np.generic):
        value = value.item()
    wanted = bool if dtype is bool_ else int if dtype.element.is_integer else (int, float)
    if not isinstance(value, wanted) or (dtype is not bool_ and isinstance(value, bool)):
        raise Unfit(f"is a scalar of {dtype.label}, not {described(value)}")
    low, high = limits(dtype)
    if not low <= value <= high and abs(value) != math.inf and value == value:
        raise Unfit(f"is {dtype.label}: {value} is outside {low:g} to {high:g}")
    number: int | float = value
    return number


def bind_scalar(binding: Binding, param: ScalarParam, value: Any) -> None:
    """A number passed at launch."""
    try:
        binding.scalars[param.name] = number_of(value, binding.dtype(param.dtype))
    except Unfit as error:
        raise refused(binding, param.name, str(error)) from None


def bind_group(binding: Binding, param: GroupParam, value: Any) -> None:
    """A tuple or a dataclass of numbers, each of them checked by itself."""
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
    """A value that the kernel is compiled for."""
    try:
        binding.constants[param.name] = _CONSTANTS[param.type](value)
    except TypeError:
        raise refused(
            binding, param.name, f"is a constant of type {param.type.__name__}, not {value!r}"
        ) from None


def _constant_int(value: Any) -> int:
    if isinstance(value, (bool, np.bool_)):
        raise TypeError
    return operator.index(value)


def _constant_bool(value: Any) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError
    return bool(value)


def _constant_float(value: Any) -> ExactFloat:
    is_float = isinstance(value, (float, np.floating))
    return ExactFloat(value if is_float else _constant_int(value))


def _constant_dtype(value: Any) -> type[DType]:
    if not (isinstance(value, type) and issubclass(value, DType) and hasattr(value, "element")):
        raise TypeError
    return value


_CONSTANTS: dict[type, Callable[[Any], Any]] = {
    int: _constant_int,
    bool: _constant_bool,
    float: _constant_float,
    DType: _constant_dtype,
}
