"""Forward analysis over structured IR: the term of every scalar integer, and the facts at every op.

`Dataflow` visits the ops in order. Each scalar integer gets a `Linear` term, each truth value a
`Formula`, each check its `Scope`. Regions open a scope: the branches of an `if` with the facts of
the condition, loop bodies with "the range is not empty". The transfer function of each op is a rule
in a table: arithmetic in `transfer`, control flow in `control_flow`; `facts.analyse` joins them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import count, product
from typing import Any

from tilewright.analysis.arithmetic import greatest, held, least
from tilewright.analysis.formulas import OPAQUE, AtLeastZero, Formula
from tilewright.analysis.intervals import Interval, MachineType
from tilewright.analysis.operations import Wrapped
from tilewright.analysis.proofs import Scope
from tilewright.analysis.terms import Linear, Origin, Variable
from tilewright.dtypes import Element
from tilewright.ir.function import Function
from tilewright.ir.op import Block, Effect, Op, Value
from tilewright.ir.ops.control import Yield
from tilewright.ir.ops.internal import BoundsCheck, DivisorCheck, NotEmpty, Require, StepCheck
from tilewright.ir.types import TileType

__all__ = [
    "Dataflow",
    "JoinedValue",
    "Jumps",
    "Leaving",
    "LoopFrame",
    "Obligation",
    "RegionEnd",
    "Rule",
    "Wanted",
    "is_followed",
    "machine_type",
    "not_followed",
]


# Limits of a term. A larger one is widened to a variable with its interval, so the cost of an
# analysis grows with the size of the program alone.
_HEIGHT = 40  # nested atoms
_WIDTH = 32  # atoms of one sum
_BITS = 256  # of a coefficient, and of the ends of a range
_ARMS = 16  # values of one join


def is_followed(term: Linear) -> bool:
    """Whether a term is within the limits of size."""
    if not term.coefficients:
        return True
    if term.height > _HEIGHT or len(term.coefficients) > _WIDTH:
        return False
    numbers = (term.range.low, term.range.high, term.constant, *term.coefficients.values())
    return all(-_LARGEST < number < _LARGEST for number in numbers)


_LARGEST = 1 << _BITS


def machine_type(value: Value) -> MachineType | None:
    """The integer type of a scalar, or None for other values."""
    type_ = value.type
    if not isinstance(type_, TileType) or type_.shape or not isinstance(type_.element, Element):
        return None
    if not type_.element.is_integer:
        return None
    signed = value.dtype.signed if value.dtype is not None else type_.element is not Element.I1
    return _integer(type_.element.bits, signed)


@cache
def _integer(bits: int, signed: bool) -> MachineType:
    return MachineType(bits, signed)


@dataclass(frozen=True)
class JoinedValue:
    """One of the values of a join, with the facts at its definition."""

    term: Linear
    facts: tuple[Linear, ...] = ()

    def lowers(self) -> list[Linear]:
        """Terms that are never above it."""
        return [self.term, *(self.term - f for f in self.facts if _replaces(self.term, f, 1))]

    def uppers(self) -> list[Linear]:
        """Terms that are never below it."""
        return [self.term, *(self.term + f for f in self.facts if _replaces(self.term, f, -1))]


@dataclass(frozen=True)
class RegionEnd:
    """The end of a region: its terminator, and the facts that hold there and not outside."""

    op: Op | None
    facts: tuple[Linear, ...]

    @property
    def goes_on(self) -> bool:
        """Whether control reaches the op after the region."""
        return isinstance(self.op, Yield)

    @property
    def values(self) -> tuple[Value, ...]:
        """The values that the region yields."""
        return self.op.values if isinstance(self.op, Yield) else ()


@dataclass
class LoopFrame:
    """A loop being analysed: every way to its next iteration, and every way out by `break`."""

    continues: list[Leaving] = field(default_factory=list)
    breaks: list[Leaving] = field(default_factory=list)


@dataclass(frozen=True)
class Leaving:
    """The end of one iteration: the carried terms (None for other values), and the scope."""

    terms: tuple[Linear | None, ...]
    scope: Scope
    facts: tuple[Linear, ...]


@dataclass(frozen=True)
class Obligation:
    """A check, in terms, and its scope.

    A divisor check needs one of its goals to be at least zero, any other check all of them.
    """

    op: BoundsCheck | DivisorCheck | StepCheck
    subject: Linear  # the checked term
    goals: tuple[Linear, ...]
    open_goals: tuple[Linear, ...]  # goals not proved at once
    scope: Scope
    facts_known: int  # number of kernel-wide facts at that point

    @property
    def is_proved(self) -> bool:
        """Whether every goal is proved."""
        return not self.open_goals


@dataclass(frozen=True)
class Wanted:
    """A term that must be at least zero where its facts hold."""

    term: Linear
    facts: tuple[Linear, ...]
    guarded: bool  # whether the code there may be skipped


# Transfer function of one kind of op.
Rule = Callable[["Dataflow", Any], None]


# The kinds of jumps that lead out of an op, for ops with regions.
Jumps = dict[Op, frozenset[type[Op]]]


class Dataflow:
    """One analysis; its results are `terms`, `formulas`, `obligations`, `requires` and `axes`."""

    def __init__(self, rules: dict[type[Op], Rule], *, asks_launch: bool = True) -> None:
        self.rules = rules
        self.asks_launch = asks_launch  # whether guarded code may rely on axes that are not empty
        self.root = Scope()
        self.scope = self.root
        self.terms: dict[Value, Linear] = {}
        self.formulas: dict[Value, Formula] = {}
        self.obligations: dict[Op, Obligation] = {}
        self.requires: dict[Require, Formula] = {}
        self.axes: dict[NotEmpty, Wanted | None] = {}  # None where it is proved
        self.loads: dict[Op, Scope] = {}  # of tiles and of elements
        self.splats: dict[Value, Linear] = {}  # tiles, with a bound of their elements
        self.blocks: dict[tuple[Linear, ...], tuple[Variable, ...]] = {}
        self.jumps: Jumps = {}
        self.rounds_left = 0  # further rounds of the loops around
        self._from_memory: set[Value] = set()
        self._serials = count()
        self._loops: list[tuple[LoopFrame, Scope]] = []

    def run(self, function: Function) -> None:
        """Analyse a whole function."""
        self.walk(function.body)

    @property
    def is_in_loop(self) -> bool:
        """Whether a loop is being analysed."""
        return bool(self._loops)

    def is_from_memory(self, value: Value) -> bool:
        """Whether an untracked value depends on a load."""
        return value in self._from_memory

    def mark_from_memory(self, value: Value) -> None:
        """Mark a value that depends on a load."""
        self._from_memory.add(value)

    # --- values ---

    def term(self, value: Value) -> Linear:
        """The term of a scalar integer."""
        found = self.terms.get(value)
        if found is None:
            found = self.terms[value] = Linear.of(self.fresh(value, Origin.COMPUTED))
        return found

    def element(self, value: Value) -> Linear:
        """A term that stands for every element of an integer tile."""
        found = self.splats.get(value)
        if found is None:
            assert isinstance(value.type, TileType)
            origin = Origin.MEMORY if self.is_from_memory(value) else Origin.COMPUTED
            scalar = Value(value.type.with_shape(()), value.dtype, value.hint)
            found = self.splats[value] = Linear.of(self.fresh(scalar, origin))
        return found

    def define(self, value: Value, term: Linear) -> None:
        """Define a value by a term that equals it modulo the width of its type."""
        type_ = machine_type(value)
        if type_ is None:
            return
        if is_followed(term):
            self.terms[value] = self.hold(term, type_)
        else:
            self.define_range(value, type_.hold(term.range))

    def define_range(self, value: Value, numbers: Interval) -> None:
        """Define a value by a variable with an interval and no other fact."""
        variable = self.fresh(value, Origin.COMPUTED)
        self.terms[value] = Linear.of(replace(variable, bounds=variable.bounds.meet(numbers)))

    def hold(self, term: Linear, type_: MachineType) -> Linear:
        """A term wrapped to a machine type; the facts here may show that it fits."""
        result = held(term, type_)
        if isinstance(result.atom, Wrapped):
            fits = type_.interval
            if self.scope.proves(term - fits.low) and self.scope.proves(-term + fits.high):
                return term
        return result

    def formula(self, value: Value) -> Formula:
        """The formula of a truth value."""
        found = self.formulas.get(value)
        if found is None and value in self.terms:
            found = AtLeastZero(self.terms[value] - 1)
        return OPAQUE if found is None else found

    def fresh(
        self,
        value: Value,
        origin: Origin,
        lowers: Iterable[Linear] = (),
        uppers: Iterable[Linear] = (),
    ) -> Variable:
        """A new variable for a scalar integer."""
        type_ = machine_type(value)
        assert type_ is not None
        low, high = tuple(dict.fromkeys(lowers)), tuple(dict.fromkeys(uppers))
        bounds = type_.interval
        if not all(is_followed(term) for term in (*low, *high)):
            origin = Origin.COMPUTED  # its bounds are no terms any more
            bounds = bounds.meet(Interval(
                max((term.range.low for term in low), default=bounds.low),
                min((term.range.high for term in high), default=bounds.high),
            ))  # fmt: skip
            low, high = (tuple(filter(is_followed, terms)) for terms in (low, high))
        return Variable(next(self._serials), value.hint, origin, bounds, low, high)

    def define_fresh(
        self,
        value: Value,
        origin: Origin,
        lowers: Iterable[Linear] = (),
        uppers: Iterable[Linear] = (),
    ) -> None:
        """Define a value by a fresh variable."""
        self.terms[value] = Linear.of(self.fresh(value, origin, lowers, uppers))

    def oblige(
        self,
        op: BoundsCheck | DivisorCheck | StepCheck,
        subject: Linear,
        goals: tuple[Linear, ...],
    ) -> Obligation:
        """Record a check; a later visit of the same op replaces an earlier one."""
        left = tuple(goal for goal in goals if not self.scope.proves(goal))
        found = Obligation(op, subject, goals, left, self.scope, len(self.root.own_facts))
        self.obligations[op] = found
        return found

    def join(self, value: Value, arms: Sequence[JoinedValue], origin: Origin = Origin.JOIN) -> None:
        """Define a value that is one of several."""
        if all(arm.term == arms[0].term for arm in arms):
            self.terms[value] = arms[0].term
            return
        if len(arms) > _ARMS:
            ranges = [arm.term.range for arm in arms]
            lowest, highest = min(r.low for r in ranges), max(r.high for r in ranges)
            self.define_range(value, Interval(lowest, highest))
            return
        each = 2 if len(arms) <= 2 else 1  # keeps the combinations few
        lowers = [least(choice) for choice in product(*(arm.lowers()[:each] for arm in arms))]
        uppers = [greatest(choice) for choice in product(*(arm.uppers()[:each] for arm in arms))]
        self.define_fresh(value, origin, lowers, uppers)

    # --- regions ---

    def walk(self, block: Block) -> None:
        """Analyse the ops of a block in the current scope."""
        for op in block.ops:
            self.rules.get(type(op), not_followed)(self, op)

    @contextmanager
    def inside(
        self, facts: Iterable[Linear], *, guarded: bool = False, looped: bool = False
    ) -> Iterator[None]:
        """A context with a new scope."""
        outer = self.scope
        self.narrow(facts, guarded=guarded, looped=looped)
        try:
            yield
        finally:
            self.scope = outer

    def narrow(
        self, facts: Iterable[Linear] = (), *, guarded: bool = False, looped: bool = False
    ) -> None:
        """Enter a scope with more facts, until the region ends."""
        self.scope = Scope(self.scope, guarded=guarded, looped=looped)
        self.scope.add(*facts)

    def region(self, block: Block, facts: Iterable[Linear]) -> RegionEnd:
        """Analyse a block that runs only where some facts hold."""
        outer = self.scope
        with self.inside(facts, guarded=True):
            self.walk(block)
            return RegionEnd(block.ops[-1] if block.ops else None, self.facts_since(outer))

    def iterate(self, block: Block, facts: Iterable[Linear], guarded: bool) -> LoopFrame:
        """Analyse a loop's body once, as any of its iterations."""
        frame = LoopFrame()
        self._loops.append((frame, self.scope))
        with self.inside(facts, guarded=guarded, looped=True):
            self.walk(block)
        self._loops.pop()
        return frame

    def leave(self, values: Sequence[Value], way: Callable[[LoopFrame], list[Leaving]]) -> None:
        """Record the end of an iteration of the innermost loop."""
        frame, outer = self._loops[-1]
        terms = tuple(self.term(v) if machine_type(v) is not None else None for v in values)
        way(frame).append(Leaving(terms, self.scope, self.facts_since(outer)))

    def facts_since(self, outer: Scope | None) -> tuple[Linear, ...]:
        """The facts that hold here and not in an outer scope."""
        found: list[Linear] = []
        scope: Scope | None = self.scope
        while scope is not None and scope is not outer:
            found.extend(scope.own_facts)
            scope = scope.parent
        return tuple(found)


def not_followed(flow: Dataflow, op: Op) -> None:
    """An op without a rule: its integers are unbounded, and marked if they depend on a load."""
    is_read = op.effect is Effect.READ or any(flow.is_from_memory(v) for v in op.operands)
    for value in op.results:
        if is_read:
            flow.mark_from_memory(value)
        if machine_type(value) is not None:
            flow.define_fresh(value, Origin.MEMORY if is_read else Origin.COMPUTED)
    for block in op.regions:
        flow.region(block, ())


def _replaces(term: Linear, fact: Linear, share: int) -> bool:
    """Whether adding or taking away a fact (`share` -1 or 1) removes a variable from a term."""
    return any(
        isinstance(atom, Variable) and coefficient == share * fact.coefficients.get(atom, 0)
        for atom, coefficient in term.coefficients.items()
    )
