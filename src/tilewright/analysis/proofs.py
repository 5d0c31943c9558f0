"""Proofs that a term is never negative, from the facts in its scope.

A `Scope` is a place in the kernel with its facts; inner scopes inherit those of outer ones. The
prover replaces one atom at a time by a weaker one (a bound of a variable, a case of a minimum, the
dividend of a quotient, a fact) until the interval of the remaining term decides. The search is
bounded: giving up is sound, a wrong proof is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import gcd, lcm

from tilewright.analysis.arithmetic import known
from tilewright.analysis.operations import Greatest, Least, Quotient, Remainder
from tilewright.analysis.terms import Atom, Known, Linear, Variable
from tilewright.ir.launch_terms import Extent, TileCount

__all__ = ["Scope"]

_DEPTH = 6
_STEPS = 120

Goals = tuple[Linear, ...]  # together they imply the goal they came from


class Scope:
    """A place in the kernel: its facts, and whether the code there may be skipped."""

    def __init__(
        self, parent: Scope | None = None, *, guarded: bool = False, looped: bool = False
    ) -> None:
        self.parent = parent
        self.is_loop_body = looped
        self.is_guarded: bool = guarded or (parent is not None and parent.is_guarded)
        self.is_in_loop: bool = looped or (parent is not None and parent.is_in_loop)
        self.own_facts: dict[Linear, None] = {}  # in order; facts that hold here and not outside
        self.by_atom: dict[Atom, list[Linear]] = {}
        self.divisors: dict[Atom, int] = {}
        self.root: Scope = self if parent is None else parent.root
        self.has_divisors = False  # of the root: whether any scope of the kernel has a divisor

    def add(self, *facts: Linear) -> None:
        """Add terms that are at least zero here."""
        for fact in facts:
            if fact.range.low >= 0 or fact in self.own_facts:
                continue
            self.own_facts[fact] = None
            for atom in fact.coefficients:
                self.by_atom.setdefault(atom, []).append(fact)
            self._note_divisor(fact)

    def _note_divisor(self, fact: Linear) -> None:
        """Record `n % d <= 0`: a remainder is never negative, so `d` divides `n`."""
        remainder = (-fact).atom
        if isinstance(remainder, Remainder) and remainder.divisor.is_constant:
            dividend = remainder.dividend.atom
            if dividend is not None:
                by = remainder.divisor.constant
                self.divisors[dividend] = lcm(self.divisors.get(dividend, 1), by)
                self.root.has_divisors = True

    def chain(self) -> Iterator[Scope]:
        """This scope and the enclosing ones, innermost first."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    @property
    def facts(self) -> tuple[Linear, ...]:
        """All facts of this scope, innermost first."""
        return tuple(fact for scope in self.chain() for fact in scope.own_facts)

    def about(self, atom: Atom) -> Iterator[Linear]:
        """Facts that mention an atom."""
        for scope in self.chain():
            yield from scope.by_atom.get(atom, ())

    def divisor(self, term: Linear) -> int:
        """A number that divides the term wherever this scope is reached."""
        found = term.constant
        for atom, coefficient in term.coefficients.items():
            found = gcd(found, coefficient * self._divisor_of(atom))
        return abs(found)

    def _divisor_of(self, atom: Atom) -> int:
        if not self.root.has_divisors:
            return 1
        return lcm(*(scope.divisors.get(atom, 1) for scope in self.chain()))

    def proves(self, term: Linear) -> bool:
        """Whether the term is proved to be at least zero here."""
        return term.range.low >= 0 or _ProofSearch(self).run(term, _DEPTH)

    @property
    def is_surely_unreachable(self) -> bool:
        """Whether a single fact is false, so that this code never runs."""
        return any(fact.range.high < 0 for fact in self.facts)

    def is_unreachable(self) -> bool:
        """Whether the facts contradict each other, so that this code never runs."""
        return any(self.proves(-fact - 1) for fact in self.facts)


class _ProofSearch:
    """One proof attempt."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.seen: dict[Linear, int] = {}
        self.steps = _STEPS

    def run(self, goal: Linear, depth: int) -> bool:
        """Whether the goal is at least zero."""
        goal = _reduced(goal)
        if goal.range.low >= 0:
            return True
        if depth == 0 or goal.range.high < 0 or self.seen.get(goal, 0) >= depth:
            return False
        self.seen[goal] = depth
        for goals in self._ways(goal):
            self.steps -= 1
            if self.steps < 0:
                return False
            if all(self.run(part, depth - 1) for part in goals):
                return True
        return False

    def _ways(self, goal: Linear) -> Iterator[Goals]:
        for atom, coefficient in goal.coefficients.items():
            way = _WAYS.get(type(atom))
            if way is not None:
                yield from way(self.scope, atom, coefficient, goal.without(atom))
        for atom, coefficient in goal.coefficients.items():
            for fact in self.scope.about(atom):
                share = fact.coefficients[atom]
                if share * coefficient > 0:
                    yield (goal.times(abs(share)) - fact.times(abs(coefficient)),)


def _reduced(goal: Linear) -> Linear:
    """The goal divided by the common factor of its coefficients."""
    if goal.is_constant:
        return goal
    common = gcd(*goal.coefficients.values())
    if common == 1:
        return goal
    smaller = {atom: coefficient // common for atom, coefficient in goal.coefficients.items()}
    return Linear(goal.constant // common, smaller)


def _replace_variable(
    scope: Scope, atom: Variable, coefficient: int, rest: Linear
) -> Iterator[Goals]:
    for bound in atom.lowers if coefficient > 0 else atom.uppers:
        yield (rest + bound.times(coefficient),)


def _replace_least(scope: Scope, atom: Least, coefficient: int, rest: Linear) -> Iterator[Goals]:
    return _replace_extremum(atom, coefficient, rest, needs_all=coefficient > 0)


def _replace_greatest(
    scope: Scope, atom: Greatest, coefficient: int, rest: Linear
) -> Iterator[Goals]:
    return _replace_extremum(atom, coefficient, rest, needs_all=coefficient < 0)


def _replace_extremum(
    atom: Least | Greatest, coefficient: int, rest: Linear, needs_all: bool
) -> Iterator[Goals]:
    goals = tuple(rest + choice.times(coefficient) for choice in atom.choices)
    if needs_all:
        yield goals
    else:
        # A case that cancels against the rest leaves the smallest search.
        for goal in sorted(goals, key=lambda goal: len(goal.coefficients)):
            yield (goal,)


def _replace_quotient(
    scope: Scope, atom: Quotient, coefficient: int, rest: Linear
) -> Iterator[Goals]:
    if atom.divisor.is_constant:
        by = atom.divisor.constant
        slack = by - gcd(by, scope.divisor(atom.dividend))
        yield _by_dividend(atom.dividend, by, slack, coefficient, rest)
    else:
        # 0 <= n // d <= n, if n >= 0 and d >= 1
        weaker = rest if coefficient > 0 else rest + atom.dividend.times(coefficient)
        yield (weaker, atom.dividend, atom.divisor - 1)


def _replace_known(scope: Scope, atom: Known, coefficient: int, rest: Linear) -> Iterator[Goals]:
    term = atom.term
    if isinstance(term, TileCount):
        extent = known(Extent(term.param, term.axis))
        rounded = term.tile - gcd(term.tile, scope.divisor(extent))
        yield _by_dividend(extent + rounded, term.tile, rounded, coefficient, rest)


def _by_dividend(dividend: Linear, by: int, slack: int, coefficient: int, rest: Linear) -> Goals:
    """Replace `q = dividend // by`, where `by*q` is at most `slack` below the dividend.

    A single `q` is compared exactly, since `q >= m` is `dividend >= by*m`.
    """
    if coefficient == 1:
        return (rest.times(by) + dividend,)
    if coefficient == -1:
        return (rest.times(by) - dividend + (by - 1),)
    low = dividend - slack if coefficient > 0 else dividend
    return (rest.times(by) + low.times(coefficient),)


def _replace_remainder(
    scope: Scope, atom: Remainder, coefficient: int, rest: Linear
) -> Iterator[Goals]:
    positive = atom.divisor - 1
    if coefficient > 0:
        yield (rest, positive)
    else:
        yield (rest + positive.times(coefficient), positive)
        yield (rest + atom.dividend.times(coefficient), positive, atom.dividend)


_WAYS: dict[type[Atom], Callable[..., Iterator[Goals]]] = {
    Variable: _replace_variable,
    Least: _replace_least,
    Greatest: _replace_greatest,
    Quotient: _replace_quotient,
    Known: _replace_known,
    Remainder: _replace_remainder,
}
