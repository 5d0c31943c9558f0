"""Element-wise ops on known numbers, and on a known number beside an unknown one.

An unknown number counts as finite: 0 times it is 0, and infinity plus it is infinity. That holds
for useful data, and the result only decides about a warning.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.dtypes import Element
from tilewright.ir.attributes import FloatIdentity, IntIdentity, Predicate
from tilewright.ir.op import Op
from tilewright.ir.ops.elementwise import (
    AddF,
    AndI,
    DivF,
    Fma,
    MaxF,
    MaxI,
    MinF,
    MinI,
    MulF,
    MulI,
    OrI,
    Rsqrt,
    Select,
    SubF,
)
from tilewright.ir.ops.families import ComparisonOp, Conversion
from tilewright.ir.ops.internal import FloorDiv, FloorMod, ReadAs
from tilewright.ir.types import TileType

__all__ = ["Number", "folded", "is_identity"]

# A known element.
Number = int | float

_COMPARED: dict[Predicate, Callable[[Any, Any], Any]] = {
    Predicate.EQUAL: np.equal,
    Predicate.NOT_EQUAL: np.not_equal,
    Predicate.LESS_THAN: np.less,
    Predicate.LESS_THAN_OR_EQUAL: np.less_equal,
    Predicate.GREATER_THAN: np.greater,
    Predicate.GREATER_THAN_OR_EQUAL: np.greater_equal,
}

_MEANINGS: dict[type[Op], Callable[..., Any]] = {
    Fma: lambda lhs, rhs, acc: lhs * rhs + acc,
    Rsqrt: lambda x: 1 / np.sqrt(x),
    MaxF: np.fmax,
    MinF: np.fmin,
    MaxI: max,
    MinI: min,
    FloorDiv: lambda lhs, rhs: lhs // rhs,
    FloorMod: lambda lhs, rhs: lhs % rhs,
    ReadAs: lambda x: x,
}


def is_identity(value: Number | None, identity: FloatIdentity | IntIdentity) -> bool:
    """Whether a number is the identity of a reduction."""
    if value is None or isinstance(identity, FloatIdentity):
        return value is not None and bool(value == identity.value)
    width = 1 << identity.element.bits
    return isinstance(value, int) and value % width == identity.value % width


def folded(op: Op, numbers: Sequence[Number | None]) -> Number | None:
    """The result of an op for these elements; None is an unknown one."""
    if isinstance(op, Select):
        found = _selected(*numbers)
    elif any(number is None for number in numbers):
        found = _absorbed(op, numbers)
    else:
        found = _computed(op, [number for number in numbers if number is not None])
    # One object for NaN, so that a comparison of fields finds it equal to itself.
    return math.nan if found is not None and math.isnan(found) else found


def _selected(
    condition: Number | None, left: Number | None, right: Number | None
) -> Number | None:  # fmt: skip
    """A mask that does not depend on the padding is trusted to select the known side."""
    if condition is not None:
        return left if condition else right
    if left is not None and right is not None:
        return left if left == right else None
    return right if left is None else left


def _absorbed(op: Op, numbers: Sequence[Number | None]) -> Number | None:
    if isinstance(op, Fma):
        product = _multiplied(numbers[:2])
        return None if product is None or numbers[2] is None else product + numbers[2]
    rule = _ABSORBING.get(type(op))
    return None if rule is None else rule(numbers)


def _multiplied(numbers: Sequence[Number | None]) -> Number | None:
    known = [number for number in numbers if number is not None]
    if len(known) == len(numbers):
        return math.prod(known)
    return next((number for number in known if number == 0 or math.isinf(number)), None)


def _added(numbers: Sequence[Number | None]) -> Number | None:
    return next((number for number in numbers if number is not None and math.isinf(number)), None)


def _subtracted(numbers: Sequence[Number | None]) -> Number | None:
    left, right = numbers
    return _added((left, None if right is None else -right))


def _divided(numbers: Sequence[Number | None]) -> Number | None:
    left, right = numbers
    if left is not None and (left == 0 or math.isinf(left)):
        return left
    return 0.0 if right is not None and math.isinf(right) else None


def _held_by(number: Number) -> Callable[[Sequence[Number | None]], Number | None]:
    return lambda numbers: number if number in numbers else None


_ABSORBING: dict[type[Op], Callable[[Sequence[Number | None]], Number | None]] = {
    MulF: _multiplied,
    MulI: _multiplied,
    AddF: _added,
    SubF: _subtracted,
    DivF: _divided,
    AndI: _held_by(0),
    MaxF: _held_by(math.inf),
    MinF: _held_by(-math.inf),
}


def _computed(op: Op, numbers: list[Number]) -> Number | None:
    type_ = op.results[0].type
    element = type_.element if isinstance(type_, TileType) else None
    if not isinstance(element, Element):
        return None
    if isinstance(op, ComparisonOp):
        return int(_COMPARED[op.comparison_predicate](*numbers))
    if isinstance(op, OrI | AndI) and element is Element.I1:
        return int(any(numbers) if isinstance(op, OrI) else all(numbers))
    meaning = (lambda x: x) if isinstance(op, Conversion) else _MEANINGS.get(type(op), op.meaning)
    if meaning is None:
        return None
    try:
        with np.errstate(all="ignore"):
            return _fitting(meaning(*_as_given(numbers, element)), element)
    except (ArithmeticError, ValueError, TypeError):
        return None


def _as_given(numbers: list[Number], element: Element) -> list[Any]:
    return [np.float64(number) if element.is_float else number for number in numbers]


def _fitting(value: Any, element: Element) -> Number | None:
    """The result as an element; an integer out of range wraps and becomes unknown."""
    if element.is_float:
        return float(value)
    if not math.isfinite(value):
        return None
    number = int(value)
    if element is Element.I1:
        return number & 1
    return number if -(1 << (element.bits - 1)) <= number < 1 << element.bits else None
