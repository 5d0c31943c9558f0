"""Forward analysis over structured IR: the term of every scalar integer, and what holds where.

`Dataflow` walks the ops in order. Each scalar integer gets a `Linear` term, each truth value a
`Formula`, each check the `Scope` it stands in. Regions open a scope: the branches of an `if` with
what the condition says, loop bodies with "the range is not empty". What each op does is a rule in
a table: arithmetic in `transfer`, control flow in `control_flow`; `facts.analyse` joins them.
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
from tilewright.analysis.operations import Held
from tilewright.analysis.proofs import Scope
from tilewright.analysis.terms import Linear, Origin, Variable
from tilewright.dtypes import Element
from tilewright.ir.function import Function
from tilewright.ir.op import Block, Effect, Op, Value
from tilewright.ir.ops.control import Yield
from tilewright.ir.ops.internal import BoundsCheck, DivisorCheck, NotEmpty, Require, StepCheck
from tilewright.ir.types import TileType

__all__ = [
    "Arm",
    "Dataflow",
    "Exit",
    "Frame",
    "Leaving",
    "Obligation",
    "Rule",
    "Wanted",
    "is_followed",
    "machine_type",
    "not_followed",
]


# A term is followed up to this size. One that is larger is a number between two others from there
# on, so what an analysis costs grows with the program and not with what its values stand for.
_HEIGHT = 40  # atoms inside each other
_WIDTH = 32  # atoms of one sum
_BITS = 256  # of a coefficient, and of the ends of a range
_ARMS = 16  # values that one join chooses from


def is_followed(term: Linear) -> bool:
    """Whether a term is small enough to go on with."""
    if not term.coefficients:
        return True
    if term.height > _HEIGHT or len(term.coefficients) > _WIDTH:
        return False
    numbers = (term.range.low, term.range.high, term.constant, *term.coefficients.values())
    return all(-_LARGEST < number < _LARGEST for number in numbers)


_LARGEST = 1 << _BITS


def machine_type(value: Value) -> MachineType | None:
    """The integer type of a scalar, or None for anything else."""
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
class Arm:
    """One of the values that a join chooses from, with the facts where it was made."""

    term: Linear
    facts: tuple[Linear, ...] = ()

    def lowers(self) -> list[Linear]:
        """Terms that are never above it."""
        return [self.term, *(self.term - f for f in self.facts if _replaces(self.term, f, 1))]

    def uppers(self) -> list[Linear]:
        """Terms that are never below it."""
        return [self.term, *(self.term + f for f in self.facts if _replaces(self.term, f, -1))]


@dataclass(frozen=True)
class Exit:
    """The end of a region: its last op, and what held there and not outside."""

    op: Op | None
    facts: tuple[Linear, ...]

    @property
    def goes_on(self) -> bool:
        """Whether what follows the region runs."""
        return isinstance(self.op, Yield)

    @property
    def values(self) -> tuple[Value, ...]:
        """What the region gives."""
        return self.op.values if isinstance(self.op, Yield) else ()


@dataclass
class Frame:
    """A loop being walked: every way to its next iteration, and every way out by `break`."""

    continues: list[Leaving] = field(default_factory=list)
    breaks: list[Leaving] = field(default_factory=list)


@dataclass(frozen=True)
class Leaving:
    """The end of one iteration: what is handed on (None for what is no integer), and where."""

    terms: tuple[Linear | None, ...]
    scope: Scope
    facts: tuple[Linear, ...]


@dataclass(frozen=True)
class Obligation:
    """A check, in terms, and the scope it stands in.

    A divisor check needs one of its goals to be at least zero, any other check all of them.
    """

    op: BoundsCheck | DivisorCheck | StepCheck
    subject: Linear  # what is checked
    goals: tuple[Linear, ...]
    open_goals: tuple[Linear, ...]  # those that could not be proved at once
    scope: Scope
    facts_known: int  # how many facts about the whole kernel there were by then

    @property
    def is_proved(self) -> bool:
        """Whether nothing was left open."""
        return not self.open_goals


@dataclass(frozen=True)
class Wanted:
    """A term that must be at least zero where some facts hold."""

    term: Linear
    facts: tuple[Linear, ...]
    guarded: bool  # whether the code there may be skipped


# What one kind of op does to an analysis.
Rule = Callable[["Dataflow", Any], None]


class Dataflow:
    """One analysis; `terms`, `formulas`, `obligations`, `requires` and `axes` are its result."""

    def __init__(self, rules: dict[type[Op], Rule], *, asks_launch: bool = True) -> None:
        self.rules = rules
        self.asks_launch = asks_launch  # whether guarded code may rely on axes that are not empty
        self.root = Scope()
        self.scope = self.root
        self.terms: dict[Value, Linear] = {}
        self.formulas: dict[Value, Formula] = {}
        self.obligations: dict[Op, Obligation] = {}
        self.requires: dict[Require, Formula] = {}
        self.axes: dict[NotEmpty, Wanted | None] = {}  # None where it is shown
        self.splats: dict[Value, Linear] = {}  # tiles all of whose elements lie in one term
        self.blocks: dict[tuple[Linear, ...], tuple[Variable, ...]] = {}
        self.rounds_left = 0  # how often loops around here are still walked again
        self._from_memory: set[Value] = set()
        self._serials = count()
        self._loops: list[tuple[Frame, Scope]] = []

    def run(self, function: Function) -> None:
        """Analyse a whole function."""
        self.walk(function.body)

    @property
    def is_in_loop(self) -> bool:
        """Whether a loop is being walked."""
        return bool(self._loops)

    def is_from_memory(self, value: Value) -> bool:
        """Whether something that was loaded is behind a value that is not followed."""
        return value in self._from_memory

    def mark_from_memory(self, value: Value) -> None:
        """Remember that something that was loaded is behind a value."""
        self._from_memory.add(value)

    # --- values ---

    def term(self, value: Value) -> Linear:
        """The term of a scalar integer."""
        found = self.terms.get(value)
        if found is None:
            found = self.terms[value] = Linear.of(self.fresh(value, Origin.COMPUTED))
        return found

    def element(self, value: Value) -> Linear:
        """A term for every element of an integer tile."""
        found = self.splats.get(value)
        if found is None:
            assert isinstance(value.type, TileType)
            origin = Origin.MEMORY if self.is_from_memory(value) else Origin.COMPUTED
            scalar = Value(value.type.with_shape(()), value.dtype, value.hint)
            found = self.splats[value] = Linear.of(self.fresh(scalar, origin))
        return found

    def define(self, value: Value, term: Linear) -> None:
        """Give a value a term that equals it modulo the width of its type."""
        type_ = machine_type(value)
        if type_ is None:
            return
        if is_followed(term):
            self.terms[value] = self.hold(term, type_)
        else:
            self.define_range(value, type_.hold(term.range))

    def define_range(self, value: Value, numbers: Interval) -> None:
        """Give a value a term of which nothing is known but the numbers that it lies between."""
        variable = self.fresh(value, Origin.COMPUTED)
        self.terms[value] = Linear.of(replace(variable, bounds=variable.bounds.meet(numbers)))

    def hold(self, term: Linear, type_: MachineType) -> Linear:
        """A term as a machine type holds it, using what is known here to show that it fits."""
        result = held(term, type_)
        if isinstance(result.atom, Held):
            fits = type_.interval
            if self.scope.proves(term - fits.low) and self.scope.proves(-term + fits.high):
                return term
        return result

    def formula(self, value: Value) -> Formula:
        """What a truth value says."""
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
            origin = Origin.COMPUTED  # its ends are no terms any more
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
        """Give a value a term of its own."""
        self.terms[value] = Linear.of(self.fresh(value, origin, lowers, uppers))

    def oblige(
        self,
        op: BoundsCheck | DivisorCheck | StepCheck,
        subject: Linear,
        goals: tuple[Linear, ...],
    ) -> Obligation:
        """Note a check; a later visit of the same op replaces an earlier one."""
        left = tuple(goal for goal in goals if not self.scope.proves(goal))
        found = Obligation(op, subject, goals, left, self.scope, len(self.root.own_facts))
        self.obligations[op] = found
        return found

    def join(self, value: Value, arms: Sequence[Arm], origin: Origin = Origin.JOIN) -> None:
        """Give a value that is one of several a term."""
        if all(arm.term == arms[0].term for arm in arms):
            self.terms[value] = arms[0].term
            return
        if len(arms) > _ARMS:
            ranges = [arm.term.range for arm in arms]
            lowest, highest = min(r.low for r in ranges), max(r.high for r in ranges)
            self.define_range(value, Interval(lowest, highest))
            return
        each = 2 if len(arms) <= 2 else 1  # combinations stay few
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
        """Work in a new scope for a while."""
        outer = self.scope
        self.narrow(facts, guarded=guarded, looped=looped)
        try:
            yield
        finally:
            self.scope = outer

    def narrow(
        self, facts: Iterable[Linear] = (), *, guarded: bool = False, looped: bool = False
    ) -> None:
        """Go on in a scope where more is known, until the region ends."""
        self.scope = Scope(self.scope, guarded=guarded, looped=looped)
        self.scope.add(*facts)

    def region(self, block: Block, facts: Iterable[Linear]) -> Exit:
        """Analyse a block that runs only where some facts hold."""
        outer = self.scope
        with self.inside(facts, guarded=True):
            self.walk(block)
            return Exit(block.ops[-1] if block.ops else None, self.facts_since(outer))

    def iterate(self, block: Block, facts: Iterable[Linear], guarded: bool) -> Frame:
        """Analyse a loop's body once, as any of its iterations."""
        frame = Frame()
        self._loops.append((frame, self.scope))
        with self.inside(facts, guarded=guarded, looped=True):
            self.walk(block)
        self._loops.pop()
        return frame

    def leave(self, values: Sequence[Value], way: Callable[[Frame], list[Leaving]]) -> None:
        """Note the end of an iteration of the innermost loop."""
        frame, outer = self._loops[-1]
        terms = tuple(self.term(v) if machine_type(v) is not None else None for v in values)
        way(frame).append(Leaving(terms, self.scope, self.facts_since(outer)))

    def facts_since(self, outer: Scope | None) -> tuple[Linear, ...]:
        """What holds here and did not hold in an outer scope."""
        found: list[Linear] = []
        scope: Scope | None = self.scope
        while scope is not None and scope is not outer:
            found.extend(scope.own_facts)
            scope = scope.parent
        return tuple(found)


def not_followed(flow: Dataflow, op: Op) -> None:
    """An op without a rule: its integers may be anything, and remember if memory is behind them."""
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
