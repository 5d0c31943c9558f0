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

from tilewright.analysis import formulas, intervals, operations, padding_facts, terms
from tilewright.analysis.pressure import Pressure
from tilewright.check import launch
from tilewright.check.padded_reduction import PaddedReduction
from tilewright.frontend.signature.specialization import arguments_of, offsets_name, record_argument
from tilewright.frontend.source.capture import source_file
from tilewright.ir import check_sites, launch_terms, types
from tilewright.ir.arguments import Argument
from tilewright.ir.function import EntryHints
from tilewright.jit.cache.plain_data import Schema, TextContext, Unreadable, Unwritable
from tilewright.jit.compile.compiled import LaunchFacts, Request
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
    check_sites.AssertSite, check_sites.CheckSite, check_sites.DivisorSite,
    PaddedReduction, padding_facts.ReachBound, EntryHints, Pressure,
    Location, Span,
)  # fmt: skip

_NAMES = {
    "Site": check_sites.Site,
    "LaunchCheck": launch.LaunchCheck,
    "SourceFile": SourceFile,
}


def write_facts(facts: LaunchFacts, functions: tuple[FunctionType, ...], request: Request) -> bytes:
    """Encode facts; `functions` are the kernel and its helpers. Raises `Unwritable`."""
    return _schema().write(facts, _Launch(functions, request))


def read_facts(data: bytes, functions: tuple[FunctionType, ...], request: Request) -> LaunchFacts:
    """Decode facts; raises `Unreadable`, and nothing else, for invalid bytes."""
    facts = _schema().read(data, LaunchFacts, _Launch(functions, request))
    if not facts.entries or facts.name != request.signature.kernel:
        raise Unreadable("these are facts about another kernel")
    return facts


@cache
def _schema() -> Schema:
    united = (terms.Atom, terms.Linear)
    return Schema(CLASSES, outside=SourceFile, names=_NAMES, united=united)


class _Launch(TextContext):
    """The kernel's source files, by the number of a function in them, and rules for its terms."""

    def __init__(self, functions: tuple[FunctionType, ...], request: Request) -> None:
        self._functions = functions
        self._files: dict[int, SourceFile] = {}
        self._numbers = {function.__code__.co_filename: n for n, function in enumerate(functions)}
        self.rules = _rules(request)

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


def _rules(request: Request) -> dict[type, Callable[[Any], bool]]:
    """Validation of decoded facts: every term must exist in launches of this specialisation."""
    signature, specialization = request.signature, request.specialization
    arguments = frozenset((*arguments_of(signature, specialization), record_argument()))
    ranks = {param.name: param.rank for param in signature.tensors}
    for param, spec in zip(signature.tensors, specialization.tensors, strict=True):
        if spec.segments is not None:
            ranks[offsets_name(param.name)] = 1
    passed = {argument.term for argument in arguments}
    addressed = ranks.keys() | {param.name for param in signature.pointers}
    dtypes = zip(signature.scalars, specialization.scalars, strict=True)
    scalars = {param.name: dtype.element for param, dtype in dtypes}

    def has_address(term: launch_terms.BaseAddress | launch_terms.PointerArgument) -> bool:
        return term.param in addressed

    def has_axis(term: launch_terms.Extent | launch_terms.Stride | launch_terms.TileCount) -> bool:
        return 0 <= term.axis < ranks.get(term.param, 0)

    def is_whole(known: terms.Known) -> bool:
        """Whether a launch check may use the term: an integer, known before memory is allocated."""
        if isinstance(known.term, launch_terms.ScalarArgument):
            return bool(scalars[known.term.param].is_integer)
        return isinstance(known.term, _COUNTS)

    return {
        launch_terms.BaseAddress: has_address,
        launch_terms.PointerArgument: has_address,
        launch_terms.Extent: has_axis,
        launch_terms.Stride: has_axis,
        launch_terms.TileCount: lambda count: count.tile > 0 and has_axis(count),
        launch_terms.ScalarArgument: lambda scalar: scalar.param in scalars,
        launch_terms.GridExtent: lambda extent: extent in passed,
        intervals.MachineType: lambda held: 0 < held.bits <= _MOST_BITS,
        terms.Known: is_whole,
        operations.Greatest: lambda greatest: len(greatest.choices) > 0,
        operations.Least: lambda least: len(least.choices) > 0,
        operations.Product: lambda product: len(product.factors) in (1, 2),
        PaddedReduction: lambda noted: noted.location is not None,
        Argument: lambda argument: argument in arguments,
    }


_COUNTS = (
    launch_terms.Blocks,
    launch_terms.Extent,
    launch_terms.GridExtent,
    launch_terms.Stride,
    launch_terms.TileCount,
)
