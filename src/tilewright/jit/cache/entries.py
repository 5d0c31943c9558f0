"""Serialisation of `LaunchFacts`, the part of a compiled kernel that launches need.

A source location is written by the number of its function, the kernel or a helper, so that it
points into the reader's files. Bytes from a file are not trusted: they decode to facts about this
specialisation, made of the classes listed here, or raise `Unreadable`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

from tilewright.analysis import formulas, intervals, operations, terms
from tilewright.check import launch, padding
from tilewright.frontend.signature.specialization import arguments_of, offsets_name, record_argument
from tilewright.frontend.source.capture import source_file
from tilewright.ir import launch_terms, types
from tilewright.ir.arguments import Argument
from tilewright.ir.ops import internal
from tilewright.jit.cache.plain_data import Schema
from tilewright.jit.cache.plain_forms import Unreadable, Unwritable
from tilewright.jit.compile.compiled import LaunchFacts, Request
from tilewright.passes.place_checks import Site
from tilewright.source import Location, SourceFile, Span

__all__ = ["CLASSES", "read_facts", "write_facts"]

_MOST_BITS = 64  # of an integer of the machine

# The classes of facts and of their parts.
CLASSES: tuple[type, ...] = (
    LaunchFacts,
    Argument, types.TileType, types.PtrType,
    launch_terms.BaseAddress, launch_terms.Blocks, launch_terms.Extent,
    launch_terms.RecordAddress, launch_terms.GridExtent, launch_terms.PointerArgument,
    launch_terms.ScalarArgument, launch_terms.Stride, launch_terms.TileCount,
    launch.AxisNotEmpty, launch.BlockCondition, launch.DivisorNotZero, launch.IndexInRange,
    launch.Precondition, launch.StepAboveZero,
    formulas.AllOf, formulas.AnyOf, formulas.AtLeastZero, formulas.Opaque,
    intervals.Interval, intervals.MachineType,
    terms.Known, terms.Linear, terms.Variable,
    operations.Greatest, operations.Wrapped, operations.Least, operations.NonZero,
    operations.Product, operations.Quotient, operations.Remainder,
    internal.AssertSite, internal.CheckSite, internal.DivisorSite,
    padding.PaddedReduction,
    Location, Span,
)  # fmt: skip

_NAMES = {
    "Site": Site,
    "LaunchCheck": launch.LaunchCheck,
    "SourceFile": SourceFile,
}


def write_facts(facts: LaunchFacts, functions: tuple[FunctionType, ...], request: Request) -> bytes:
    """Encode facts; `functions` are the kernel and its helpers. Raises `Unwritable`."""
    return _schema().write(facts, _Files(functions), _Fitting(request))


def read_facts(data: bytes, functions: tuple[FunctionType, ...], request: Request) -> LaunchFacts:
    """Decode facts; raises `Unreadable`, and nothing else, for invalid bytes."""
    facts = _schema().read(data, LaunchFacts, _Files(functions), _Fitting(request))
    if not facts.entries or facts.name != request.signature.kernel:
        raise Unreadable("these are facts about another kernel")
    return facts


@cache
def _schema() -> Schema:
    united = (terms.Atom, terms.Linear)
    return Schema(CLASSES, outside=SourceFile, names=_NAMES, united=united)


class _Files:
    """Source files, by the number of a function in them."""

    def __init__(self, functions: tuple[FunctionType, ...]) -> None:
        self._functions = functions
        self._files: dict[int, SourceFile] = {}
        self._numbers = {function.__code__.co_filename: n for n, function in enumerate(functions)}

    def number(self, value: SourceFile) -> int:
        """The number of a function in this file."""
        if value.path not in self._numbers:
            raise Unwritable(f"no function of the kernel stands in {value.path}")
        return self._numbers[value.path]

    def object(self, number: int) -> SourceFile:
        """The file of a function in this process."""
        if not 0 <= number < len(self._functions):
            raise Unreadable(f"there is no function {number}")
        if number not in self._files:
            self._files[number] = source_file(self._functions[number])
        return self._files[number]


class _Fitting:
    """Validation of decoded facts: every term must exist in launches of this specialisation."""

    def __init__(self, request: Request) -> None:
        signature = request.signature
        passed = (*arguments_of(signature, request.specialization), record_argument())
        self._arguments = frozenset(passed)
        self._terms = frozenset(argument.term for argument in passed)
        self._ranks = {param.name: param.rank for param in signature.tensors}
        for param, spec in zip(signature.tensors, request.specialization.tensors, strict=True):
            if spec.segments is not None:
                self._ranks[offsets_name(param.name)] = 1
        self._pointers = {param.name for param in signature.pointers}
        dtypes = zip(signature.scalars, request.specialization.scalars, strict=True)
        self._scalars = {param.name: dtype.element for param, dtype in dtypes}

    def __call__(self, part: Any) -> bool:
        rule = _RULES.get(type(part))
        return rule is None or rule(self, part)

    def has_address(self, term: launch_terms.BaseAddress | launch_terms.PointerArgument) -> bool:
        """Whether a tensor of this name has an address."""
        return term.param in self._ranks or term.param in self._pointers

    def has_axis(self, term: launch_terms.Extent | launch_terms.Stride) -> bool:
        """Whether the tensor has this axis."""
        return 0 <= term.axis < self._ranks.get(term.param, 0)

    def has_tiles(self, term: launch_terms.TileCount) -> bool:
        """Whether the tensor has this axis; the tile is positive."""
        return term.tile > 0 and 0 <= term.axis < self._ranks.get(term.param, 0)

    def is_passed(self, argument: Argument) -> bool:
        """Whether the argument is one of this specialisation's."""
        return argument in self._arguments

    def has_extent(self, term: launch_terms.GridExtent) -> bool:
        """Whether the extent of this grid axis is an argument."""
        return term in self._terms

    def has_scalar(self, term: launch_terms.ScalarArgument) -> bool:
        """Whether the kernel has this scalar."""
        return term.param in self._scalars

    def is_whole(self, known: terms.Known) -> bool:
        """Whether a launch check may use the term: an integer, known before memory is allocated."""
        if isinstance(known.term, launch_terms.ScalarArgument):
            return bool(self._scalars[known.term.param].is_integer)
        return isinstance(known.term, _COUNTS)


_COUNTS = (
    launch_terms.Blocks,
    launch_terms.Extent,
    launch_terms.GridExtent,
    launch_terms.Stride,
    launch_terms.TileCount,
)


_RULES: dict[type, Callable[[_Fitting, Any], bool]] = {
    launch_terms.BaseAddress: _Fitting.has_address,
    launch_terms.PointerArgument: _Fitting.has_address,
    launch_terms.Extent: _Fitting.has_axis,
    launch_terms.Stride: _Fitting.has_axis,
    launch_terms.TileCount: _Fitting.has_tiles,
    launch_terms.ScalarArgument: _Fitting.has_scalar,
    launch_terms.GridExtent: _Fitting.has_extent,
    intervals.MachineType: lambda _, held: 0 < held.bits <= _MOST_BITS,
    terms.Known: _Fitting.is_whole,
    operations.Greatest: lambda _, greatest: len(greatest.choices) > 0,
    operations.Least: lambda _, least: len(least.choices) > 0,
    operations.Product: lambda _, product: len(product.factors) in (1, 2),
    padding.PaddedReduction: lambda _, noted: noted.tile > 0,
    Argument: _Fitting.is_passed,
}
