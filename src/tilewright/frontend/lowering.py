"""The state of lowering one kernel, through which the parts of the front end call each other.

The parts (`statements`, `expressions`, `builtins`, …) are functions that take the `Lowering` first;
they call each other through it, so none imports another's callers. Launch values and views, which
dominate the whole body, go to a prologue before it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from types import FunctionType
from typing import Any, NoReturn

from tilewright.check.errors.syntax import TooLong, Unsupported
from tilewright.check.errors.types import WrongOperand
from tilewright.diagnostics import Problem, Rejected
from tilewright.dtypes import DType, Element
from tilewright.frontend.control.frames import Frame, Learned
from tilewright.frontend.operands.operands import (
    Grid,
    LambdaOperand,
    Operand,
    Poison,
    RecordOperand,
    Static,
    TensorOperand,
    TupleOperand,
)
from tilewright.frontend.signature.signature import Signature
from tilewright.frontend.signature.specialization import Specialization
from tilewright.frontend.source.captures import Captures
from tilewright.ir.builder import Builder
from tilewright.ir.inspections import Observer
from tilewright.ir.launch_terms import BaseAddress, LaunchTerm
from tilewright.ir.op import Block, Value
from tilewright.ir.ops.internal import LaunchValue
from tilewright.ir.ops.memory import MakePartitionView
from tilewright.ir.ops.views import MakeStridedView
from tilewright.ir.types import (
    Padding,
    PartitionViewType,
    PtrType,
    StridedViewType,
    TensorViewType,
    ViewType,
    scalar,
)
from tilewright.source import Location, Span

__all__ = [
    "LARGEST_CONSTANT",
    "MOST_EXPRESSIONS",
    "MOST_MEMBERS",
    "Abandoned",
    "Derived",
    "Lowering",
    "Rules",
    "assigned_names",
]


class Derived(Exception):
    """A failure that follows from a problem already reported."""


class Abandoned(Exception):
    """A problem that ends the lowering of the kernel: no statement after it is lowered."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.title)
        self.problem = problem


@dataclass(frozen=True)
class Rules:
    """The lowering of each kind of AST node."""

    statements: Mapping[type[ast.stmt], Callable[[Lowering, Any], None]]
    expressions: Mapping[type[ast.expr], Callable[[Lowering, Any], Operand]]
    refusals: Mapping[type[ast.AST], tuple[str, str]]  # its name, and the alternative


@dataclass(eq=False)
class Lowering:
    """The state while a kernel is lowered."""

    signature: Signature
    specialization: Specialization
    rules: Rules
    frame: Frame
    prologue: Block = field(default_factory=Block)
    body: Block = field(default_factory=Block)
    problems: list[Problem] = field(default_factory=list)
    grid: Grid = field(default_factory=lambda: Grid((), ()))  # how blocks are numbered
    captures: Captures = field(default_factory=Captures)
    observer: Observer | None = None  # of all named tiles
    # Functions that are being inlined; of one nested function there may be several closures.
    open_functions: list[LambdaOperand | FunctionType] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)  # in the unrolled loops around, outermost first
    # Facts that loops have learned, by enclosing calls, enclosing iterations, and loop.
    learned: dict[tuple[tuple[Span, ...], tuple[int, ...], ast.AST], Learned] = field(
        default_factory=dict
    )
    # Captured tuples and dataclasses by their `id`, each with its operand.
    held: dict[int, tuple[object, Operand | None]] = field(default_factory=dict)
    # The kind of each accumulator, and where it was first used.
    accumulated: dict[str, tuple[str, Span]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.builder = Builder(self.body)
        self._launch_values: dict[tuple[LaunchTerm, Element], Value] = {}
        self._views: dict[tuple[str, ViewType], Value] = {}
        self._assigned: dict[ast.AST, list[str]] = {}
        self._expressions = 0  # lowered so far

    @cached_property
    def placeholders(self) -> Mapping[type[DType], type[DType]]:
        """The dtypes of the signature's placeholders in this specialisation."""
        signature, chosen = self.signature, self.specialization
        tensors = zip(signature.tensors, chosen.tensors, strict=True)
        pointers = zip(signature.pointers, chosen.pointers, strict=True)
        found = {param.dtype: spec.dtype for param, spec in tensors}
        return {**found, **{param.dtype: spec.dtype for param, spec in pointers}}

    # --- the current location -------------------------------------------------------------------

    def assigned_in(self, loop: ast.For | ast.While) -> list[str]:
        """Names that the body of a loop assigns, cached for nested loops."""
        found = self._assigned.get(loop)
        if found is None:
            found = self._assigned[loop] = assigned_names(loop.body)
        return found

    def span(self, node: ast.AST) -> Span:
        """The location of a node of the current function."""
        return Span.of(self.frame.source.file, node)

    def reject(
        self, problem: type[Problem], node: ast.AST, *details: Any, **named: Any
    ) -> NoReturn:
        """Abandon the current statement because of a problem at a node."""
        raise Rejected(problem(self.span(node), *details, calls=self.frame.calls, **named))

    @contextmanager
    def at(self, node: ast.AST) -> Iterator[None]:
        """A context whose ops have the location of this node."""
        outer = self._move_to(node)
        try:
            yield
        finally:
            self.builder.loc = outer

    def _move_to(self, node: ast.AST) -> Location | None:
        """Set the location of new ops to this node; returns the old location."""
        outer = self.builder.loc
        self.builder.loc = Location(self.span(node), self.frame.calls)
        return outer

    # --- the parts ------------------------------------------------------------------------------

    def expression(self, node: ast.expr) -> Operand:
        """Lower an expression."""
        rule = self.rules.expressions.get(type(node))
        if rule is None:
            self.refuse(node)
        self._expressions += 1
        if self._expressions > MOST_EXPRESSIONS:
            problem = TooLong(self.span(node), MOST_EXPRESSIONS, calls=self.frame.calls)
            raise Abandoned(problem)
        outer = self._move_to(node)
        try:
            operand = rule(self, node)
        finally:
            self.builder.loc = outer
        if isinstance(operand, Poison):
            raise Derived
        self._refuse_if_too_large(node, operand)
        return operand

    def _refuse_if_too_large(self, node: ast.expr, operand: Operand) -> None:
        if isinstance(operand, Static) and _is_too_long(operand.value):
            reason = "it has more digits than any dtype can hold"
            self.reject(WrongOperand, node, f"this is {operand}", reason)
        if isinstance(operand, _HOLDERS) and operand.size > MOST_MEMBERS:
            reason = f"it holds more than {MOST_MEMBERS:,} values, with those of its members"
            way_out = "hold numbers in a tile, or load them from a tensor"
            self.reject(WrongOperand, node, f"this is {operand}", reason, way_out)

    def statement(self, node: ast.stmt) -> None:
        """Lower one statement; a problem in it does not hide the next."""
        try:
            rule = self.rules.statements.get(type(node))
            if rule is None:
                self.refuse(node)
            with self.at(node):
                rule(self, node)
        except Rejected as rejected:
            self.problems.append(rejected.problem)
            self._poison(node)
        except Derived:
            self._poison(node)

    def refuse(self, node: ast.AST, where: ast.AST | None = None) -> NoReturn:
        """Refuse a construct that is not in the language, and name the alternative.

        Operators have no location of their own in the AST: for those `where` is the expression.
        """
        construct, instead = self.rules.refusals.get(
            type(node), (f"`{type(node).__name__.lower()}`", "")
        )
        self.reject(Unsupported, where or node, construct, instead)

    def _poison(self, statement: ast.stmt) -> None:
        self.frame.left = None
        for name in assigned_names([statement]):
            self.frame.scope[name] = Poison()

    # --- the prologue ----------------------------------------------------------------------------

    def launch_value(self, term: LaunchTerm, element: Element = Element.I32) -> Value:
        """A launch term as a scalar."""
        key = (term, element)
        if key not in self._launch_values:
            with self.in_prologue():
                known_as = self.signature.home_of(term)
                op = self.builder.add(LaunchValue(term=term, to=scalar(element), known_as=known_as))
            op.result.hint = str(term)
            self._launch_values[key] = op.result
        return self._launch_values[key]

    def partition_view(
        self, tensor: TensorOperand, tile: tuple[int, ...], padding: Padding | None
    ) -> Value:
        """A view of a tensor cut into tiles."""
        assert isinstance(tensor.view.type, TensorViewType)
        whole = tensor.whole_tile(tile)
        axes = tuple(range(len(whole)))
        return self.view(tensor, PartitionViewType(whole, tensor.view.type, axes, padding))

    def view(self, tensor: TensorOperand, to: PartitionViewType | StridedViewType) -> Value:
        """A view of a tensor, created once."""
        key = (tensor.name, to)
        if key not in self._views:
            make = MakePartitionView if isinstance(to, PartitionViewType) else MakeStridedView
            with self.in_prologue():
                op = self.builder.add(make(tensor_view=tensor.view, to=to))  # type: ignore[arg-type]
            self._views[key] = op.result
        return self._views[key]

    def address(self, tensor: TensorOperand) -> Value:
        """The pointer to a tensor's first element."""
        to = scalar(PtrType(tensor.spec.dtype.element))
        with self.in_prologue():
            return self.builder.add(LaunchValue(term=BaseAddress(tensor.name), to=to)).result

    @contextmanager
    def in_prologue(self) -> Iterator[None]:
        """A context whose ops go to the prologue."""
        outer = self.builder.loc
        self.builder.loc = None
        with self.builder.inside(self.prologue):
            yield
        self.builder.loc = outer


# Expressions of a kernel with all unrolled loops and calls written out: half a minute of compiling.
MOST_EXPRESSIONS = 1 << 17

# Values in a tuple or a dataclass, those of its members included: branches and loops carry each.
MOST_MEMBERS = 1 << 16
_HOLDERS = (TupleOperand, RecordOperand, LambdaOperand)

LARGEST_CONSTANT = 10_000  # bits: far more than any dtype holds, and few enough for decimal text


def _is_too_long(value: object) -> bool:
    return isinstance(value, int) and value.bit_length() > LARGEST_CONSTANT


_NAMELESS = (ast.Constant, ast.expr_context, ast.operator)  # most nodes are such, or names


def assigned_names(nodes: Iterable[ast.stmt]) -> list[str]:
    """Names that statements assign, in order of first appearance; nested blocks included."""
    found: dict[str, None] = {}
    pending: list[ast.AST] = [*reversed([*nodes])]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                found[node.id] = None
        elif isinstance(node, _NAMELESS):
            continue
        elif isinstance(node, ast.alias):
            found[(node.asname or node.name).partition(".")[0]] = None
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found[node.name] = None  # its own assignments are local to it
        else:
            pending.extend(reversed([*ast.iter_child_nodes(node)]))
    return list(found)
