"""Element-wise ops on known numbers, and on a known number beside an unknown one.

An unknown number counts as finite and of ordinary size: 0 times it is 0, infinity plus it is
infinity, and -1e30 plus it is -1e30. That holds for useful data, and the result only decides about
a warning.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.dtypes import Element
from tilewright.ir.attributes import FloatIdentity, IntIdentity, Predicate, Signedness
from tilewright.ir.op import Op
from tilewright.ir.ops.elementwise import (
    AddF,
    AndI,
    Bitcast,
    CmpI,
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

__all__ = ["Number", "folded", "folded_product", "is_identity"]

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
    if condition is not None:
        return left if condition else right
    return left if left is not None and left == right else None


def _absorbed(op: Op, numbers: Sequence[Number | None]) -> Number | None:
    if isinstance(op, Fma):
        product, total = _multiplied(numbers[:2]), numbers[2]
        if product is None or total is None:
            return _added((product, total))
        return product + total
    if isinstance(op, CmpI):
        return _compared(op, numbers)
    if isinstance(op, OrI) and _element(op) is Element.I1:
        return 1 if 1 in numbers else None
    rule = _ABSORBING.get(type(op))
    return None if rule is None else rule(numbers)


def _compared(op: CmpI, numbers: Sequence[Number | None]) -> Number | None:
    """The index -1 is below no extent, as an unsigned number."""
    is_less = op.comparison_predicate is Predicate.LESS_THAN
    is_unsigned, left = op.signedness is Signedness.UNSIGNED, numbers[0]
    return 0 if is_less and is_unsigned and left is not None and left < 0 else None


def folded_product(left: Number | None, right: Number | None) -> Number | None:
    """The product of two elements; None is an unknown one."""
    return _multiplied((left, right))


def _multiplied(numbers: Sequence[Number | None]) -> Number | None:
    known = [number for number in numbers if number is not None]
    if len(known) == len(numbers):
        return math.prod(known)
    return next((number for number in known if number == 0 or _is_huge(number)), None)


def _added(numbers: Sequence[Number | None]) -> Number | None:
    return next((number for number in numbers if number is not None and _is_huge(number)), None)


def _is_huge(number: Number) -> bool:
    """Whether data beside it does not count: infinity, and the numbers that stand for it."""
    return abs(number) >= _HUGE


_HUGE = 1e4  # half floats reach 65504


def _subtracted(numbers: Sequence[Number | None]) -> Number | None:
    left, right = numbers
    return _added((left, None if right is None else -right))


def _divided(numbers: Sequence[Number | None]) -> Number | None:
    left, right = numbers
    if left is not None and (left == 0 or _is_huge(left)):
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
    element = _element(op)
    if element is None:
        return None
    if isinstance(op, Bitcast):
        return _bits_of(op, numbers[0], element)
    if isinstance(op, CmpI) and op.signedness is Signedness.UNSIGNED:
        numbers = [int(number) % (1 << 64) for number in numbers]
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


def _element(op: Op) -> Element | None:
    """The element of a result that is a tile of numbers."""
    type_ = op.results[0].type
    element = type_.element if isinstance(type_, TileType) else None
    return element if isinstance(element, Element) else None


def _bits_of(op: Bitcast, number: Number, element: Element) -> Number | None:
    """The same bits as another element."""
    assert isinstance(op.source.type, TileType)
    given = op.source.type.element
    if not isinstance(given, Element):
        return None
    wrapped = number if given.is_float else int(number) % (1 << given.bits)
    kind = given.value.numpy if given.is_float else np.dtype(f"u{given.bits // 8}")
    try:
        bits = np.array(wrapped, kind).view(element.value.numpy)
    except (TypeError, ValueError, OverflowError):
        return None  # elements of less than a byte
    return float(bits) if element.is_float else int(bits)


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
