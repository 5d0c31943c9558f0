"""Values of the host check: the little that is certain about an object of the host program.

A value is immutable and compared by its fields, so that two branches agree on a name where they
give it equal values. Every object without a class of its own here is `UNKNOWN`, about which nothing
is ever reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from types import ModuleType
from typing import Any

__all__ = [
    "FOREIGN",
    "GRAPH",
    "PART",
    "SCOPE",
    "UNKNOWN",
    "UNSURE",
    "WHOLE",
    "CalleeValue",
    "ConstantValue",
    "CutValue",
    "GraphValue",
    "ItemsValue",
    "KnownValue",
    "MethodValue",
    "ModuleValue",
    "OperationValue",
    "Parameter",
    "Region",
    "RowRange",
    "Special",
    "TensorAccess",
    "TensorValue",
    "Value",
    "overlap",
]


class Special(Enum):
    """Values without fields."""

    UNKNOWN = "anything"
    FOREIGN = "an object of another library, which is no operation"
    SCOPE = "a context manager that lets exceptions pass"


# Members of the enumeration, by the names that the other modules use.
UNKNOWN, FOREIGN, SCOPE = Special.UNKNOWN, Special.FOREIGN, Special.SCOPE


@dataclass(frozen=True)
class RowRange:
    """RowRange of a tensor's memory, counted along its first axis; the end is exclusive."""

    low: int
    high: int


class _Extent(Enum):
    """Regions that are no range of rows."""

    WHOLE = "all elements"
    PART = "some elements, at least one"
    UNSURE = "some elements, perhaps none"


# The elements of a tensor's memory that a handle reaches.
Region = RowRange | _Extent
# Members of the enumeration, by the names that the other modules use.
WHOLE, PART, UNSURE = _Extent.WHOLE, _Extent.PART, _Extent.UNSURE


@dataclass(frozen=True)
class TensorValue:
    """A handle on memory; a tensor whose extents are unknown has elements."""

    handle: int  # the same for all names of one handle
    memory: int  # the same for all views
    region: Region = WHOLE
    rows: int | None = None  # extent of the first axis of the memory, if this axis is the handle's
    is_dense: bool = False  # a handle of a new tensor, and no view


@dataclass(frozen=True)
class CutValue:
    """A partition of a tensor."""

    tensor: TensorValue


@dataclass(frozen=True)
class OperationValue:
    """An operation; the state knows whether it has run."""

    number: int


@dataclass(frozen=True)
class GraphValue:
    """A graph; its replays are operations whose tensors are not followed."""


# All graphs are alike.
GRAPH = GraphValue()


@dataclass(frozen=True)
class ConstantValue:
    """A number, a string, None."""

    value: Any


@dataclass(frozen=True)
class ItemsValue:
    """A tuple that the program spells out."""

    values: tuple[Value, ...]


@dataclass(frozen=True)
class ModuleValue:
    """A module of this package."""

    module: ModuleType


@dataclass(frozen=True)
class KnownValue:
    """Another public object of this package."""

    thing: Any


class TensorAccess(Enum):
    """The access of an operation to a tensor."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel or of a library function; `access` of a tensor, None of a number."""

    name: str
    access: TensorAccess | None
    is_keyword: bool = False


@dataclass(frozen=True)
class CalleeValue:
    """A kernel or a library function: a call builds an operation.

    `parameters` is None if the tensors that the operation holds are not known.
    """

    name: str
    parameters: tuple[Parameter, ...] | None
    gives_tensor: bool = False  # its result is `out`, or a new tensor
    needs_dense: bool = False  # with other layouts the operation holds some tensors only later


@dataclass(frozen=True)
class MethodValue:
    """A bound method of a value."""

    owner: TensorValue | CutValue | OperationValue | GraphValue | CalleeValue
    name: str


# Any value.
Value = (
    Special
    | TensorValue
    | CutValue
    | OperationValue
    | GraphValue
    | ConstantValue
    | ItemsValue
    | ModuleValue
    | KnownValue
    | CalleeValue
    | MethodValue
)


def overlap(one: TensorValue, other: TensorValue) -> bool:
    """Whether two handles share elements for certain."""
    if one.memory != other.memory or UNSURE in (one.region, other.region):
        return False
    if one.handle == other.handle or WHOLE in (one.region, other.region):
        return True
    if isinstance(one.region, RowRange) and isinstance(other.region, RowRange):
        return max(one.region.low, other.region.low) < min(one.region.high, other.region.high)
    return False
