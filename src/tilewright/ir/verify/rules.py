"""The vocabulary in which the rules of ops are written.

A rule takes an op and yields its problems. Rules here are made from data (elements, equal operands,
rounding modes), so that the tables of `verify.ops` read as tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from tilewright.dtypes import Element
from tilewright.ir.op import Op, Value
from tilewright.ir.types import PtrType, TileType

__all__ = [
    "ANY_ELEMENT",
    "BASE_FLOATS",
    "BYTES",
    "FLOAT",
    "FLOATS",
    "INTEGER",
    "INTEGERS",
    "INTEGER_OR_I4",
    "NUMBER",
    "NUMBERS",
    "POINTER",
    "POINTERS",
    "SCALAR_INTEGER",
    "TRUTH",
    "Rule",
    "TileClass",
    "alike",
    "allowed",
    "bit_width",
    "same_element",
    "same_rank",
    "same_shape",
    "tiles",
    "values_of",
    "when",
]

Rule = Callable[[Any], Iterator[str]]  # from an op to its problems

# Sets of elements that most ops share; i4 is in none of them.
INTEGERS = frozenset({Element.I1, Element.I8, Element.I16, Element.I32, Element.I64})
BASE_FLOATS = frozenset({Element.F16, Element.BF16, Element.F32, Element.F64})  # with arithmetic
FLOATS = frozenset(element for element in Element if element.is_float)  # with storage-only ones
NUMBERS = INTEGERS | FLOATS  # everything but pointers and i4
_TF32_BITS = 19  # as Tile IR counts; the host holds tf32 in 32


@dataclass(frozen=True)
class TileClass:
    """A set of tile types: by element, by rank, pointers or not."""

    elements: frozenset[Element] = frozenset()
    pointers: bool = False
    rank: int | None = None

    def holds(self, type_: object) -> bool:
        """Whether a type is in the set."""
        if not isinstance(type_, TileType) or self.rank not in (None, type_.rank):
            return False
        if isinstance(type_.element, PtrType):
            return self.pointers
        return type_.element in self.elements

    def __str__(self) -> str:
        names = [element.spelling for element in Element if element in self.elements]
        names += ["pointers"] if self.pointers else []
        return f"a {'scalar' if self.rank == 0 else 'tile'} of {' or '.join(names)}"


# --- classes that several tables name -------------------------------------------------------------

FLOAT = TileClass(FLOATS)  # including storage-only formats
INTEGER = TileClass(INTEGERS)  # any but i4
INTEGER_OR_I4 = TileClass(INTEGERS | {Element.I4})  # operands of ops that compute in i4
SCALAR_INTEGER = TileClass(INTEGERS, rank=0)  # an index or a bound
NUMBER = TileClass(NUMBERS)  # any but i4
TRUTH = TileClass(frozenset({Element.I1}))  # a mask or a condition for each element
BYTES = TileClass(frozenset({Element.I8}))  # also packed elements
POINTERS = TileClass(pointers=True)  # one for each element
POINTER = TileClass(pointers=True, rank=0)  # a single address
ANY_ELEMENT = TileClass(NUMBERS | {Element.I4}, pointers=True)  # every legal element of a tile


def values_of(op: Op, name: str) -> tuple[Value, ...]:
    """Return the values of one field: none if it is absent, several if it is variadic."""
    held = getattr(op, name)
    if held is None:
        return ()
    return held if isinstance(held, tuple) else (held,)


def tiles(kind: TileClass, *names: str) -> Rule:
    """Every value of the named fields is in the class."""

    def check(op: Op) -> Iterator[str]:
        for name in names:
            for value in values_of(op, name):
                if not kind.holds(value.type):
                    yield f"`{name}` must be {kind}, but is {value.type}"

    return check


def _agree(what: str, aspect: Callable[[Any], object], names: tuple[str, ...]) -> Rule:
    def check(op: Op) -> Iterator[str]:
        values = [value for name in names for value in values_of(op, name)]
        if len({aspect(value.type) for value in values}) > 1:
            listed = ", ".join(str(value.type) for value in values)
            yield f"{_listed(names)} must have one {what}, but are {listed}"

    return check


def alike(*names: str) -> Rule:
    """The named values have one type."""
    return _agree("type", lambda type_: type_, names)


def same_shape(*names: str) -> Rule:
    """The named tiles have one shape."""
    return _agree("shape", lambda type_: getattr(type_, "shape", None), names)


def same_rank(*names: str) -> Rule:
    """The named tiles have one rank."""
    return _agree("rank", lambda type_: getattr(type_, "rank", None), names)


def same_element(*names: str) -> Rule:
    """The named tiles hold one element."""
    return _agree("element", lambda type_: getattr(type_, "element", None), names)


def allowed(name: str, *members: Enum) -> Rule:
    """An attribute is one of the given members of its enum."""

    def check(op: Op) -> Iterator[str]:
        held = getattr(op, name)
        if held not in members:
            options = ", ".join(member.name.lower() for member in members)
            yield f"`{name}` must be one of {options}, but is {held.name.lower()}"

    return check


def when(condition: Callable[[Any], bool], message: str) -> Rule:
    """Refuse an op for which a condition holds."""

    def check(op: Op) -> Iterator[str]:
        if condition(op):
            yield message

    return check


def bit_width(element: Element) -> int:
    """Return the bits of an element as Tile IR counts them."""
    return _TF32_BITS if element is Element.TF32 else element.bits


def _listed(names: tuple[str, ...]) -> str:
    quoted = [f"`{name}`" for name in names]
    return " and ".join(quoted) if len(quoted) < 3 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"
