"""Attributes of Tile IR ops: the enums, promises, hints and identities.

The numbers of the enums are those of the format. In arrays, dictionaries and promises an attribute
describes itself: `Attribute` lists the kinds. Elsewhere its op declares a codec (`ir.codecs`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from tilewright.dtypes import Element
from tilewright.ir.types import FunctionType, PtrType, TileType, Type

__all__ = [
    "EVERY_TARGET",
    "AtomicMode",
    "Attribute",
    "Bounded",
    "DenseElements",
    "Dictionary",
    "DivBy",
    "FloatIdentity",
    "IntIdentity",
    "MemoryOrder",
    "MemoryScope",
    "Ordering",
    "Overflow",
    "Predicate",
    "Promise",
    "Rounding",
    "SameElements",
    "Signedness",
    "TargetHints",
    "Visibility",
]

EVERY_TARGET = "default"  # stands for every target without hints of its own


class Signedness(Enum):
    """How an integer op reads its bits."""

    UNSIGNED = 0
    SIGNED = 1


class Overflow(Enum):
    """Promise of an integer op that its result does not wrap around."""

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
    NEAREST_AWAY = 7


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
    """Threads that observe a memory operation in order."""

    TL_BLK = 0
    DEVICE = 1
    SYS = 2


class AtomicMode(Enum):
    """Combination that a read-modify-write stores back."""

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


class Visibility(Enum):
    """Modules that may refer to a global."""

    PUBLIC = 0
    PRIVATE = 1


@dataclass(frozen=True)
class DivBy:
    """The value is a multiple of `divisor` (bytes for a pointer).

    With `every` and `along`, the promise holds for the first element of each group of `every`
    elements along axis `along`; within a group, elements increase by one.
    """

    divisor: int
    every: int | None = None
    along: int | None = None


@dataclass(frozen=True)
class SameElements:
    """Along each axis a tile consists of groups of equal elements, of these sizes."""

    groups: tuple[int, ...]


@dataclass(frozen=True)
class Bounded:
    """The value lies in `[lower, upper]`; None leaves that side open."""

    lower: int | None
    upper: int | None


@dataclass(frozen=True)
class FloatIdentity:
    """A float with its element: the neutral element of a reduction.

    `value` may be a NumPy scalar of the element's kind, which keeps the bits of a NaN.
    """

    element: Element
    value: float


@dataclass(frozen=True)
class IntIdentity:
    """An integer with its element, its bits read unsigned: the neutral element of a reduction."""

    element: Element
    value: int


@dataclass(frozen=True, eq=False)
class DenseElements:
    """Known elements of a tile, such as those of a constant."""

    type: TileType
    value: Any


@dataclass(frozen=True)
class Dictionary:
    """Attributes by name, in the order in which they are written."""

    items: tuple[tuple[str, Attribute], ...] = ()

    def get(self, name: str) -> Attribute | None:
        """Return the attribute of that name, if there is one."""
        return dict(self.items).get(name)


@dataclass(frozen=True)
class TargetHints:
    """Hints to the compiler by target: `sm_90` and the like, and `default` for all others.

    tileiras silently drops hints that a target does not know, so any name and value may stand here.
    """

    targets: tuple[tuple[str, Dictionary], ...] = ()

    @staticmethod
    def of(target: str = EVERY_TARGET, /, **given: bool | int | None) -> TargetHints:
        """Hints for one target; None leaves the choice to the compiler."""
        items = sorted((name, value) for name, value in given.items() if value is not None)
        return TargetHints(((target, Dictionary(tuple(items))),))

    def named(self, name: str) -> tuple[Attribute, ...]:
        """Return the hints of that name for all targets; an integer is given without its width."""
        found = (known.get(name) for _, known in self.targets)
        return tuple(
            value.value if isinstance(value, IntIdentity) else value
            for value in found
            if value is not None
        )


# Predicates that `assume` can state.
Promise = DivBy | SameElements | Bounded

# Every kind of attribute that an array, a dictionary or a promise can hold. An `int` has 32 bits, a
# tuple is an array, a type stands for itself.
Attribute = (
    bool | int | str | IntIdentity | FloatIdentity | DenseElements | Promise | Dictionary
    | TargetHints | Element | PtrType | Type | FunctionType | tuple["Attribute", ...]
)  # fmt: skip
