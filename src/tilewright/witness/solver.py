"""Proposals of a solver, for failures that small launches seldom reach.

Each index that is not proved to lie inside is a term over launch terms, variables of the kernel and
loaded values; z3 searches for numbers with which it lies outside. Terms are mathematical integers
with explicit wraps (`Wrapped`), so a solution is also one of the machine arithmetic. Untracked
values are unconstrained, so a solution is only a proposal: running it decides. z3 is an extra
(`verify`); without it there are no proposals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from typing import Any

from tilewright.analysis.dataflow import Dataflow, Obligation
from tilewright.analysis.facts import analyse
from tilewright.analysis.operations import (
    Greatest,
    Least,
    NonZero,
    Product,
    Quotient,
    Remainder,
    Wrapped,
)
from tilewright.analysis.terms import Atom, Known, Linear, Origin, Variable
from tilewright.errors import CompileError
from tilewright.frontend.kernel import lower_kernel
from tilewright.frontend.signature.signature import Signature
from tilewright.frontend.signature.specialization import Specialization
from tilewright.ir.launch_terms import (
    Blocks,
    Extent,
    GridExtent,
    LaunchTerm,
    ScalarArgument,
    TileCount,
)
from tilewright.ir.ops.internal import BoundsCheck
from tilewright.kernel import Kernel
from tilewright.witness.proposals import IntegerContents, Proposal, axes_of

__all__ = ["is_solver_installed", "solved_proposals"]

_MILLISECONDS = 2000  # for one query
_SIZES = (64, 4096)  # the largest extent to search: small ones first, none too large to run


@cache
def _z3() -> Any | None:
    try:
        return import_module("z3")
    except ImportError:
        return None


def is_solver_installed() -> bool:
    """Whether z3 is installed."""
    return _z3() is not None


def solved_proposals(
    kernel: Kernel, specialization: Specialization, grid: tuple[int, ...]
) -> Iterator[Proposal]:
    """A launch for each index that may lie outside, if the solver finds one."""
    if not is_solver_installed():
        return
    try:
        function, _ = lower_kernel(kernel.source, kernel.signature, specialization)
    except CompileError:
        return
    flow = analyse(function)
    for obligation in flow.obligations.values():
        if isinstance(obligation.op, BoundsCheck) and not obligation.is_proved:
            proposal = _solved(flow, obligation, kernel.signature, grid)
            if proposal is not None:
                yield proposal


def _solved(
    flow: Dataflow, obligation: Obligation, signature: Signature, grid: tuple[int, ...]
) -> Proposal | None:
    z3 = _z3()
    assert z3 is not None
    for largest in _SIZES:
        question = _Question(z3, largest)
        facts = (*obligation.scope.facts, *_of_every_launch(flow, obligation))
        conditions = [question.term(fact) >= 0 for fact in facts]
        outside = z3.Or([question.term(goal) < 0 for goal in obligation.goals])
        solver = z3.Solver()
        solver.set("timeout", _MILLISECONDS)
        solver.add(*conditions, outside, *question.sides)
        if solver.check() == z3.sat:
            return question.proposal(solver.model(), signature, grid)
    return None


def _of_every_launch(flow: Dataflow, obligation: Obligation) -> Iterator[Linear]:
    """Goals of the other unguarded checks: a launch that fails one of them is refused."""
    for other in flow.obligations.values():
        if other is not obligation and not other.scope.is_guarded:
            yield from (goal for goal in other.goals if goal.is_launch_known)


class _Question:
    """Terms as solver expressions, and the constraints on their atoms."""

    def __init__(self, z3: Any, largest: int) -> None:
        self.sides: list[Any] = []
        self._z3 = z3
        self._largest = largest
        self._atoms: dict[Atom, Any] = {}
        self._launch: dict[LaunchTerm, Any] = {}

    def term(self, term: Linear) -> Any:
        """The expression of a sum."""
        parts = (self._atom(atom) * times for atom, times in term.coefficients.items())
        return sum(parts, self._z3.IntVal(term.constant))

    def _atom(self, atom: Atom) -> Any:
        if atom not in self._atoms:
            self._atoms[atom] = _ATOMS[type(atom)](self, atom)
        return self._atoms[atom]

    def launch(self, term: LaunchTerm) -> Any:
        """The expression of a launch term; a tile count follows from its extent."""
        if term not in self._launch:
            if isinstance(term, TileCount):
                extent = self.launch(Extent(term.param, term.axis))
                self._launch[term] = (extent + term.tile - 1) / term.tile
            else:
                self._launch[term] = self.fresh()
                if isinstance(term, Extent | Blocks | GridExtent):  # an empty one runs no block
                    self.between(self._launch[term], 1, self._largest)
        return self._launch[term]

    def fresh(self) -> Any:
        """A new integer variable."""
        return self._z3.FreshInt()

    def between(self, value: Any, low: int, high: int) -> None:
        """Constrain a value to a range."""
        self.sides += [value >= low, value <= high]

    def either(self, condition: Any, then: Any, otherwise: Any) -> Any:
        """One of two expressions, by a condition."""
        return self._z3.If(condition, then, otherwise)

    def any_of(self, conditions: list[Any]) -> Any:
        """The disjunction of several conditions."""
        return self._z3.Or(conditions)

    def proposal(self, model: Any, signature: Signature, grid: tuple[int, ...]) -> Proposal:
        """The launch of a model; numbers that it leaves open are small."""

        def value(term: LaunchTerm, otherwise: int) -> int:
            found = self._launch.get(term)
            return otherwise if found is None else model.eval(found, True).as_long()

        extents = {
            axis: value(Extent(*_home(signature, axis)), 1 if isinstance(axis, str) else 16)
            for axis in axes_of(signature)
        }
        scalars = {p.name: value(ScalarArgument(p.name), 1) for p in signature.scalars}
        read = (a for a in self._atoms if isinstance(a, Variable) and a.origin is Origin.MEMORY)
        loaded = [model.eval(self._atoms[atom], True).as_long() for atom in read]
        blocks = tuple(value(GridExtent(axis), extent) for axis, extent in enumerate(grid))
        return Proposal(extents, scalars, IntegerContents(loaded[0] if loaded else 0), blocks)


def _home(signature: Signature, axis: str | tuple[str, int]) -> tuple[str, int]:
    return signature.homes[axis] if isinstance(axis, str) else axis


# --- atoms ----------------------------------------------------------------------------------------


def _known(question: _Question, atom: Known) -> Any:
    value = question.launch(atom.term)
    question.between(value, atom.bounds.low, atom.bounds.high)
    return value


def _variable(question: _Question, atom: Variable) -> Any:
    value = question.fresh()
    question.between(value, atom.bounds.low, atom.bounds.high)
    question.sides += [value >= question.term(lower) for lower in atom.lowers]
    question.sides += [value <= question.term(upper) for upper in atom.uppers]
    return value


def _extreme(is_beyond: Callable[[Any, Any], Any]) -> Callable[[_Question, Any], Any]:
    def atom(question: _Question, atom: Least | Greatest) -> Any:
        value, choices = question.fresh(), [question.term(choice) for choice in atom.choices]
        question.sides += [is_beyond(value, choice) for choice in choices]
        question.sides.append(question.any_of([value == choice for choice in choices]))
        return value

    return atom


def _division(question: _Question, atom: Quotient | Remainder) -> tuple[Any, Any]:
    """Quotient and remainder of floor division; the divisor is not zero."""
    dividend, divisor = question.term(atom.dividend), question.term(atom.divisor)
    quotient, rest = question.fresh(), question.fresh()
    question.sides += [
        divisor != 0,
        dividend == quotient * divisor + rest,
        question.either(divisor > 0, rest >= 0, rest <= 0),
        question.either(divisor > 0, rest < divisor, rest > divisor),
    ]
    return quotient, rest


def _product(question: _Question, atom: Product) -> Any:
    first, *others = (question.term(Linear.of(factor)) for factor in atom.factors)
    return first * (others[0] if others else first)  # a set of one is a square


def _nonzero(question: _Question, atom: NonZero) -> Any:
    value = question.term(atom.value)
    return question.either(value == 0, 1, value)


def _held(question: _Question, atom: Wrapped) -> Any:
    """A number of the machine's type that differs by a multiple of its width."""
    value, turns = question.fresh(), question.fresh()
    question.between(value, atom.type.interval.low, atom.type.interval.high)
    question.sides.append(value == question.term(atom.value) + turns * (1 << atom.type.bits))
    return value


_ATOMS: dict[type[Atom], Callable[[_Question, Any], Any]] = {
    Greatest: _extreme(lambda value, choice: value >= choice),
    Wrapped: _held,
    Known: _known,
    Least: _extreme(lambda value, choice: value <= choice),
    NonZero: _nonzero,
    Product: _product,
    Quotient: lambda question, atom: _division(question, atom)[0],
    Remainder: lambda question, atom: _division(question, atom)[1],
    Variable: _variable,
}
