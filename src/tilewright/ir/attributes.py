"""Attributes of Tile IR ops: the enums, and how each kind of attribute is written.

A codec says in which of the bytecode's forms an attribute travels; `bytecode` has one writer for
each codec class and the printer one formatter. The numbers of the enums are those of the format.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from tilewright.dtypes import Element

__all__ = [
    "ArrayCodec",
    "AtomicMode",
    "AttributeCodec",
    "BoolArrayCodec",
    "BoolCodec",
    "Bounded",
    "ConstantCodec",
    "DivBy",
    "EnumCodec",
    "FloatIdentity",
    "HintsCodec",
    "Int32ArrayCodec",
    "IntCodec",
    "IntIdentity",
    "LoadHints",
    "MemoryOrder",
    "MemoryScope",
    "Ordering",
    "Overflow",
    "Predicate",
    "PredicateCodec",
    "Rounding",
    "Signedness",
    "StringCodec",
]


class Signedness(Enum):
    """How an integer op reads its bits."""

    UNSIGNED = 0
    SIGNED = 1


class Overflow(Enum):
    """What an integer op promises about wrap-around."""

    NONE = 0
    NSW = 1
    NUW = 2
    NW = 3


class Rounding(Enum):
    """How a result that does not fit is rounded."""

    NEAREST_EVEN = 0
    ZERO = 1
    NEGATIVE_INF = 2
    POSITIVE_INF = 3
    APPROX = 4
    FULL = 5
    NEAREST_INT_TO_ZERO = 6


class Predicate(Enum):
    """A comparison."""

    EQUAL = 0
    NOT_EQUAL = 1
    LESS_THAN = 2
    LESS_THAN_OR_EQUAL = 3
    GREATER_THAN = 4
    GREATER_THAN_OR_EQUAL = 5


class Ordering(Enum):
    """Whether a float comparison with NaN is true (unordered) or false (ordered)."""

    UNORDERED = 0
    ORDERED = 1


class MemoryOrder(Enum):
    """Strength of a memory operation."""

    WEAK = 0
    RELAXED = 1
    ACQUIRE = 2
    RELEASE = 3
    ACQ_REL = 4


class MemoryScope(Enum):
    """Who sees a memory operation in order."""

    TL_BLK = 0
    DEVICE = 1
    SYS = 2


class AtomicMode(Enum):
    """What a read-modify-write does."""

    AND = 0
    OR = 1
    XOR = 2
    ADD = 3
    ADDF = 4
    MAX = 5
    MIN = 6
    UMAX = 7
    UMIN = 8
    XCHG = 9


@dataclass(frozen=True)
class DivBy:
    """The value is a multiple of `divisor` (bytes for a pointer)."""

    divisor: int


@dataclass(frozen=True)
class Bounded:
    """The value lies in `[lower, upper]`; None leaves that side open."""

    lower: int | None
    upper: int | None


@dataclass(frozen=True)
class FloatIdentity:
    """The neutral element of a float reduction."""

    element: Element
    value: float


@dataclass(frozen=True)
class IntIdentity:
    """The neutral element of an integer reduction, as its bits read unsigned."""

    element: Element
    value: int


@dataclass(frozen=True)
class LoadHints:
    """Advice on one load or store; None leaves the choice to the compiler."""

    latency: int | None = None
    allow_tma: bool | None = None


class AttributeCodec:
    """How one kind of attribute travels."""


@dataclass(frozen=True)
class EnumCodec(AttributeCodec):
    """A number of an enum."""

    enum: type[Enum]


class IntCodec(AttributeCodec):
    """An unsigned number."""


class BoolCodec(AttributeCodec):
    """A byte, 0 or 1."""


class StringCodec(AttributeCodec):
    """Text, by its place in the string table."""


class Int32ArrayCodec(AttributeCodec):
    """A tuple of 32-bit integers."""


@dataclass(frozen=True)
class BoolArrayCodec(AttributeCodec):
    """A tuple of truth values, one for each value of an operand group; empty means all false."""

    along: str


class ConstantCodec(AttributeCodec):
    """A NumPy array, or a number for every element, by its place in the constant table."""


class ArrayCodec(AttributeCodec):
    """A tuple of self-describing attributes (`FloatIdentity`, `IntIdentity`)."""


class PredicateCodec(AttributeCodec):
    """One self-describing attribute (`DivBy`, `Bounded`)."""


class HintsCodec(AttributeCodec):
    """A `LoadHints`, as a dictionary of hints by target."""


Attribute = Any
