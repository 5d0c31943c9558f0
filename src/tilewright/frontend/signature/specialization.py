"""Specialisation: dtypes, constants, tiles, stride and divisibility facts, target.

A specialisation never holds an extent, so one compiled kernel serves all sizes. `arguments_of`
returns the entry's parameters with the facts that the launch verifies before it selects this
specialisation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from tilewright.dtypes import DType, Element
from tilewright.frontend.signature.signature import (
    GroupParam,
    PointerParam,
    ScalarParam,
    Signature,
    TensorParam,
)
from tilewright.ir.arguments import Argument
from tilewright.ir.launch_terms import (
    BaseAddress,
    Extent,
    GridExtent,
    PointerArgument,
    RecordAddress,
    ScalarArgument,
    Stride,
)
from tilewright.ir.types import MAX_TILE_ELEMENTS, PtrType, scalar
from tilewright.lang.hints import Hints

__all__ = [
    "LARGEST_DIVISOR",
    "MAX_EXTENT",
    "MAX_WHOLE_EXTENT",
    "ExactFloat",
    "NamedConstant",
    "PointerSpec",
    "Specialization",
    "TensorSpecialization",
    "arguments_of",
    "describe",
    "divisor",
    "extent_divisors",
    "offsets_name",
    "record_argument",
]

# Extents are passed as i32.
MAX_EXTENT = 2**31 - 1
# Tensors that the kernel cuts itself leave room for any tile over their edge.
MAX_WHOLE_EXTENT = 2**31 - MAX_TILE_ELEMENTS
# Suffices for TMA and vector loads; a larger divisor would only add keys.
LARGEST_DIVISOR = 16


class ExactFloat(float):
    """A float as part of a key: zeros of both signs differ, and NaN equals itself."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExactFloat) and self.hex() == other.hex()

    def __hash__(self) -> int:
        return hash(self.hex())


class NamedConstant:
    """A function, or a member of an enum, as part of a key, compared by identity.

    Its text has no address, since it is part of keys shared between processes; the code of a
    function and the value of a member are captured by the kernel.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamedConstant) and other.value is self.value

    def __hash__(self) -> int:
        return object.__hash__(self.value)

    def __repr__(self) -> str:
        if isinstance(self.value, Enum):
            kind = type(self.value)
            return f"{kind.__module__}.{kind.__qualname__}.{self.value.name}"
        module = getattr(self.value, "__module__", None)
        return f"{module}.{getattr(self.value, '__qualname__', type(self.value).__name__)}"


@dataclass(frozen=True)
class TensorSpecialization:
    """Facts about one tensor argument that the compiler relies on."""

    dtype: type[DType]
    unit_strides: tuple[bool, ...]  # whether each stride is one
    address_divisor: int  # in bytes
    extent_divisors: tuple[int, ...]
    stride_divisors: tuple[int, ...]
    wide: bool = False  # some stride does not fit in 32 bits
    far: bool = False  # nor does the offset of some element
    tile: tuple[int | None, ...] = ()  # of an output; None: the whole axis
    order: tuple[int, ...] = ()  # of an output: axes of the grid, `~axis` for one from its end
    is_prefix: bool = False  # of an output: there may be more pieces than blocks
    segments: TensorSpecialization | None = None  # of an output: offsets that cut its first axis
    # Of a persistent output, along its last two axes; None: the compiler chooses.
    group: tuple[int, int] | None = (1, 1)

    @property
    def grid_axes(self) -> tuple[int, ...]:
        """Of an output: its axis for each axis of the grid."""
        return tuple(max(axis, ~axis) for axis in self.order) or tuple(range(len(self.tile)))

    @property
    def descending(self) -> tuple[int, ...]:
        """Of an output: the grid axes along which the first block has the last tile."""
        return tuple(at for at, axis in enumerate(self.order) if axis < 0)


@dataclass(frozen=True)
class PointerSpec:
    """Facts about one pointer argument that the compiler relies on."""

    dtype: type[DType]
    address_divisor: int  # in bytes


@dataclass(frozen=True)
class Specialization:
    """One specialisation of a kernel; hashable, as the key of the cache."""

    tensors: tuple[TensorSpecialization, ...]  # in the order of the signature's tensors
    constants: tuple[tuple[str, Any], ...]  # static dims and Const parameters, by name
    scalars: tuple[type[DType], ...]
    target: str
    grid_rank: int | None = None  # axes of a grid in the call; None: the outputs have one
    hints: Hints = field(default_factory=Hints)
    pointers: tuple[PointerSpec, ...] = ()  # in the order of the signature's pointers

    def constant(self, name: str) -> Any:
        """The value of a static dim or Const parameter."""
        return dict(self.constants)[name]


def describe(signature: Signature, specialization: Specialization) -> str:
    """The specialisation as text, for the last line of an error."""
    shown = []
    for param, spec in zip(signature.tensors, specialization.tensors, strict=True):
        extents = ("All" if dim is None else str(dim) for dim in spec.tile or param.dims)
        dims = ", ".join(extents)
        shown.append(f"{param.name}: {spec.dtype.label}[{dims}]")
    for pointer, pointed in zip(signature.pointers, specialization.pointers, strict=True):
        shown.append(f"{pointer.name}: Ptr[{pointed.dtype.label}]")
    what = f" for {', '.join(shown)}" if shown else ""
    return f"`{signature.kernel}` specialised{what} on {specialization.target}"


def arguments_of(signature: Signature, specialization: Specialization) -> tuple[Argument, ...]:
    """The entry's parameters, in order, with the facts that a launch has checked."""
    specs = dict(zip((p.name for p in signature.tensors), specialization.tensors, strict=True))
    dtypes = dict(zip((p.name for p in signature.scalars), specialization.scalars, strict=True))
    pointers = dict(zip((p.name for p in signature.pointers), specialization.pointers, strict=True))
    found: list[Argument] = []
    for param in signature.params:
        if isinstance(param, TensorParam):
            found.extend(_tensor_arguments(param.name, specs[param.name]))
            offsets = specs[param.name].segments
            if offsets is not None:
                found.extend(_tensor_arguments(offsets_name(param.name), offsets))
        elif isinstance(param, ScalarParam | GroupParam):
            for leaf in param.leaves():
                element = dtypes[leaf.name].element
                found.append(Argument(ScalarArgument(leaf.name), scalar(element)))
        elif isinstance(param, PointerParam):
            spec = pointers[param.name]
            pointer = scalar(PtrType(spec.dtype.element))
            found.append(Argument(PointerArgument(param.name), pointer, spec.address_divisor))
    for axis in _grid_arguments(specialization):
        found.append(Argument(GridExtent(axis), scalar(Element.I32), 1, 1, MAX_EXTENT))
    return tuple(found)


def _grid_arguments(specialization: Specialization) -> range:
    """The grid axes whose extents no tile count gives: all, or that of the segments."""
    if specialization.grid_rank is not None:
        return range(specialization.grid_rank)
    return range(1 if any(spec.segments is not None for spec in specialization.tensors) else 0)


def offsets_name(output: str) -> str:
    """The name of the hidden offsets that cut an output; no parameter can have it."""
    return f"{output}.offsets"


def record_argument() -> Argument:
    """The hidden last parameter of a kernel that may report a failure."""
    return Argument(RecordAddress(), scalar(PtrType(Element.I32)), divisor=16)


def _tensor_arguments(name: str, spec: TensorSpecialization) -> list[Argument]:
    pointer = scalar(PtrType(spec.dtype.element))
    found = [Argument(BaseAddress(name), pointer, divisor=spec.address_divisor)]
    for axis, divisor in enumerate(spec.extent_divisors):
        found.append(Argument(Extent(name, axis), scalar(Element.I32), divisor, 0, MAX_EXTENT))
    element = Element.I64 if spec.wide else Element.I32
    for axis, divisor in enumerate(spec.stride_divisors):
        found.append(Argument(Stride(name, axis), scalar(element), divisor, 0))
    return found


def extent_divisors(shape: Iterable[int], runs_along: Iterable[bool]) -> tuple[int, ...]:
    """The divisors of extents: only that of the contiguous axis, where vectors may fill the axis.

    Machine code does not depend on the divisors of the other extents, so a specialisation by them
    would only add compilations.
    """
    axes = zip(shape, runs_along, strict=True)
    return tuple(divisor(extent) if is_along else 1 for extent, is_along in axes)


def divisor(number: int) -> int:
    """The largest power of two up to 16 that divides a number; zero is divisible by 16."""
    return min(number & -number, LARGEST_DIVISOR) if number else LARGEST_DIVISOR
