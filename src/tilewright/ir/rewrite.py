"""Rewriting functions: the walk that all passes share.

A pass is a table of rules, one for each op class that it changes; `Rewriter` walks a function in
program order, keeps every other op and substitutes values as it goes. Ops are immutable, so an op
that no substitution reaches is shared by the old and the new function. Also here: definitions and
use counts of values, and ops with some parts replaced. Analyses that need a fixpoint are elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from tilewright.ir.builder import Builder
from tilewright.ir.function import Function
from tilewright.ir.op import Block, Op, Value
from tilewright.ir.ops.control import If, Loop, Yield

__all__ = [
    "Definition",
    "Rewriter",
    "Rule",
    "containing_ops",
    "definitions",
    "first_values",
    "has_any",
    "is_loop",
    "nested_ops",
    "use_counts",
    "when",
    "widened",
    "with_parts",
]

_Op = TypeVar("_Op", bound=Op)


class Definition(NamedTuple):
    """Definition of a value: result `position` of `op`, or argument `position` of its region."""

    op: Op
    position: int
    is_argument: bool = False


def definitions(function: Function) -> dict[Value, Definition]:
    """Return the definition of each value; the function's own parameters are left out."""
    found: dict[Value, Definition] = {}
    for op in function.walk():
        for position, value in enumerate(op.results):
            found[value] = Definition(op, position)
        for block in op.regions:
            for position, value in enumerate(block.args):
                found[value] = Definition(op, position, is_argument=True)
    return found


def has_any(function: Function, kinds: Collection[type[Op]]) -> bool:
    """Whether an op of one of these classes occurs; a pass without work returns its input."""
    return any(type(op) in kinds for op in function.walk())


def use_counts(function: Function) -> Counter[Value]:
    """Count the uses of each value as an operand."""
    return Counter(value for op in function.walk() for value in op.operands)


def nested_ops(op: Op) -> Iterator[Op]:
    """Iterate over the ops inside an op's regions, at any depth, in program order."""
    for block in op.regions:
        yield from block.walk()


def containing_ops(function: Function, inner: Container[Op]) -> set[Op]:
    """Return the ops whose regions contain one of these, at any depth."""
    found: set[Op] = set()
    for op in reversed(tuple(function.walk())):  # nested ops before the enclosing op
        if any(one in inner or one in found for block in op.regions for one in block.ops):
            found.add(op)
    return found


def is_loop(op: Op) -> bool:
    """Whether an op repeats its body, which then takes carried values."""
    return op.carries


def first_values(op: Op) -> tuple[Value, ...]:
    """Return the initial values of a loop, its last operands; empty for other ops."""
    found: tuple[Value, ...] = op.__dict__["init_values"] if op.carries else ()
    return found


def with_parts(op: _Op, **changes: Any) -> _Op:
    """Return the op with some parts replaced; results at the same position keep name and dtype."""
    parts = {name: value for name, value in op.__dict__.items() if name in op.part_names}
    new = type(op)(**(parts | changes))
    for before, after in zip(op.results, new.results, strict=False):
        after.dtype, after.hint = before.dtype, before.hint
    return new


def widened(op: _Op, extra: tuple[Value, ...]) -> _Op:
    """Return a region op with more results, of the types of `extra`, the initial values of a loop.

    The regions must already take and pass on the additional values.
    """
    if not extra:
        return op
    changes: dict[str, Any] = {}
    if is_loop(op):
        changes["init_values"] = (*first_values(op), *extra)
    if isinstance(op, If | Loop):
        changes["types"] = (*op.types, *(value.type for value in extra))
    return with_parts(op, **changes)


@contextmanager
def when(builder: Builder, condition: Value) -> Iterator[None]:
    """Build ops that run only if a scalar condition holds, and that define no results."""
    with builder.inside(Block()) as then_body:
        yield
        builder.add(Yield())
    builder.add(If(condition=condition, then_body=then_body, else_body=Block((), [Yield()])))


class Rewriter:
    """One walk over a function. A rule gets the rewriter and an old op, and builds its replacement.

    A rule maps each result of the old op that may be used later, by `replace` or by `keep`.
    """

    def __init__(self, rules: Mapping[type[Op], Rule] | None = None) -> None:
        self.rules: Mapping[type[Op], Rule] = {} if rules is None else rules
        self.values: dict[Value, Value] = {}
        self.builder = Builder(Block())

    def function(self, function: Function) -> Function:
        """Return the function, rewritten."""
        return replace(function, body=self.block(function.body))

    def block(self, block: Block) -> Block:
        """Return the block, rewritten; its arguments stay the same values."""
        with self.builder.inside(Block(block.args)) as new:
            for op in block.ops:
                self.visit(op)
        return new

    def visit(self, op: Op) -> None:
        """Rewrite one op: by its rule, or unchanged."""
        outer, self.builder.loc = self.builder.loc, op.loc
        rule = self.rules.get(type(op))
        if rule is None:
            self.keep(op)
        else:
            rule(self, op)
        self.builder.loc = outer

    def new(self, value: Value) -> Value:
        """Return the replacement of an old value."""
        return self.values.get(value, value)

    def keep(self, op: Op) -> Op:
        """Append the op itself, over the new operands and with its regions rewritten."""
        if not op.region_fields and self.values.keys().isdisjoint(op.operands):
            return self.builder.add(op)
        regions = tuple(self.block(region) for region in op.regions)
        new = self.builder.add(op.rebuilt(self.values, regions))
        self.replace(op, *new.results)
        return new

    def replace(self, op: Op, *results: Value) -> None:
        """Map the first results of an old op to new values."""
        self.values.update(zip(op.results, results, strict=False))


# Rewrites one old op through the rewriter; each pass knows its own type of both.
Rule = Callable[[Any, Any], None]
