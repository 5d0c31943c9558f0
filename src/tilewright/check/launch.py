"""Launch checks: conditions evaluated on the host at every launch, with the actual numbers.

A check is plain data over launch terms and can be pickled. The guards and loops around it are its
`premises`: if the numbers show that the code is never reached, the check holds. Variables are
evaluated as intervals, wrap-around included.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

from tilewright.analysis.formulas import AllOf, AtLeastZero, Formula
from tilewright.analysis.intervals import Interval
from tilewright.analysis.terms import Atom, Known, Linear, TermIntervals, atoms_of
from tilewright.errors import InternalError
from tilewright.ir.check_sites import CheckSite
from tilewright.ir.launch_terms import Extent, LaunchTerm, TileCount
from tilewright.source import Location

__all__ = [
    "AxisNotEmpty",
    "BlockCondition",
    "DivisorNotZero",
    "IndexInRange",
    "LaunchCheck",
    "Precondition",
    "StepAboveZero",
]

# Nesting depth to which premises narrow the atoms of premises; deeper ones are not narrowed.
_DEEPEST = 8

# The numbers of one launch.
Environment = Mapping[LaunchTerm, int]


class _AtLaunch(TermIntervals):
    """Numeric intervals of terms in one launch, narrowed by the facts at one place."""

    def __init__(self, environment: Environment, premises: tuple[Linear, ...]) -> None:
        self.environment = environment
        self.premises = premises
        self._contradicts = False
        self._found: dict[Atom, Interval] = {}
        self._about: dict[Atom, list[Linear]] = {}
        for premise in premises:
            for atom in premise.coefficients:
                self._about.setdefault(atom, []).append(premise)
        self._depth = 0

    def may_be_reached(self) -> bool:
        """Whether no fact shows that the code never runs in this launch."""
        return all(self.of(fact).high >= 0 for fact in self.premises) and not self._contradicts

    def of(self, term: Linear) -> Interval:
        return term.interval(self)

    def known(self, atom: Known) -> Interval:
        value = launch_value(self.environment, atom.term)
        return Interval(value, value)

    def at(self, atom: Atom) -> Interval:
        found = self._found.get(atom)
        if found is None:
            # Facts about each other's atoms would recur endlessly: inside, the plain range serves.
            found = self._found[atom] = atom.interval(self)
            if not isinstance(atom, Known) and self._depth < _DEEPEST:
                self._depth += 1
                found = self._found[atom] = self._narrowed(atom, found)
                self._depth -= 1
        return found

    def _narrowed(self, atom: Atom, found: Interval) -> Interval:
        for premise in self._about.get(atom, ()):
            share = premise.coefficients[atom]
            limit = self.of(premise.without(atom)).high // abs(share)
            low = max(found.low, -limit) if share > 0 else found.low
            high = min(found.high, limit) if share < 0 else found.high
            if low > high:
                self._contradicts = True
                return found
            found = Interval(low, high)
        return found


def launch_value(environment: Environment, term: LaunchTerm) -> int:
    """The number of a launch term; tile counts follow from extents."""
    value = environment.get(term)
    if value is None and isinstance(term, TileCount):
        extent = environment.get(Extent(term.param, term.axis))
        value = None if extent is None else -(-extent // term.tile)
    if value is None:
        raise InternalError(f"a launch check needs {term}, which the launch did not give")
    return value


@dataclass(frozen=True)
class LaunchCheck(ABC):
    """One condition on a launch.

    A failed check refuses the launch, unless it is `guarded`: then the code may not be reached, or
    the index may not attain its whole interval, and the variant with the check in the kernel
    decides.
    """

    location: Location | None = field(compare=False)  # of the first access that needs it
    guarded: bool
    premises: tuple[Linear, ...]

    # Whether it concerns accesses of blocks, and so holds in a launch that has none.
    needs_blocks: ClassVar[bool] = True

    def holds(self, environment: Environment) -> bool:
        """Whether a launch with these numbers satisfies it."""
        numbers = _AtLaunch(environment, self.premises)
        return self._is_met(numbers) or not numbers.may_be_reached()

    def describe(self, environment: Environment) -> str:
        """The problem of a launch with these numbers, without its place."""
        return self._problem(_AtLaunch(environment, self.premises))

    def explain(self, environment: Environment) -> str:
        """Why a launch with these numbers is refused, for the message."""
        given = ", ".join(
            f"{term} = {launch_value(environment, term)}" for term in sorted(self.terms, key=str)
        )
        where = "" if self.location is None else f"{self.location}: "
        return f"{where}{self.describe(environment)}{f' ({given})' if given else ''}"

    @cached_property
    def terms(self) -> frozenset[LaunchTerm]:
        """The launch terms that it constrains."""
        return _known_in(self._terms())

    @cached_property
    def deciding_terms(self) -> frozenset[LaunchTerm]:
        """The launch terms that it depends on, those of its premises included."""
        return _known_in((*self._terms(), *self._goals(), *self.premises))

    def _goals(self) -> Iterable[Linear]:
        """Terms that replace others at evaluation."""
        return ()

    def as_python(self, text_of: Callable[[LaunchTerm], str]) -> str | None:
        """Python text that is true only if it holds; None if sums of launch terms do not say it."""
        formula = self._formula()
        return None if formula is None else formula.as_python(text_of)

    def _formula(self) -> Formula | None:
        """The condition on the numbers, where the code is reached."""
        return None

    @abstractmethod
    def _terms(self) -> Iterable[Linear]:
        """The terms that it constrains."""

    @abstractmethod
    def _is_met(self, numbers: TermIntervals) -> bool:
        """Whether it holds, given that the code is reached."""

    @abstractmethod
    def _problem(self, numbers: TermIntervals) -> str:
        """The problem, without the numbers."""


@dataclass(frozen=True)
class IndexInRange(LaunchCheck):
    """Every value of an index lies inside its axis."""

    site: CheckSite
    index: Linear
    count: Linear
    goals: tuple[Linear, ...]  # the open goals of `0 <= index < count`

    def _terms(self) -> Iterable[Linear]:
        return (self.index, self.count)

    def _goals(self) -> Iterable[Linear]:
        return self.goals

    def _formula(self) -> Formula:
        return AllOf(tuple(AtLeastZero(goal) for goal in self.goals))

    def _is_met(self, numbers: TermIntervals) -> bool:
        return all(numbers.of(goal).low >= 0 for goal in self.goals)

    def _problem(self, numbers: TermIntervals) -> str:
        index, count = numbers.of(self.index), numbers.of(self.count)
        if index.low == index.high:
            reach = f"index {index.low}"
        else:
            reach = f"the index `{self.index}` goes from {index.low} to {index.high}"
        return f"{_axis(self.site)}: {reach}, but {_size(self.site, count.low)}"


@dataclass(frozen=True)
class AxisNotEmpty(LaunchCheck):
    """An axis is not empty, so that an index can be clamped to it."""

    site: CheckSite
    count: Linear

    def _terms(self) -> Iterable[Linear]:
        return (self.count,)

    def _formula(self) -> Formula:
        return AtLeastZero(self.count - 1)

    def _is_met(self, numbers: TermIntervals) -> bool:
        return numbers.of(self.count).low > 0

    def _problem(self, numbers: TermIntervals) -> str:
        return f"{_axis(self.site)}: an index is checked in the kernel, but the axis is empty"


@dataclass(frozen=True)
class DivisorNotZero(LaunchCheck):
    """A divisor that is known at launch, or its interval, excludes zero."""

    divisor: Linear

    def _terms(self) -> Iterable[Linear]:
        return (self.divisor,)

    def _is_met(self, numbers: TermIntervals) -> bool:
        found = numbers.of(self.divisor)
        return found.low > 0 or found.high < 0

    def _problem(self, numbers: TermIntervals) -> str:
        found = numbers.of(self.divisor)
        if found.low == found.high:
            return f"the divisor `{self.divisor}` is zero"
        return f"the divisor `{self.divisor}` goes from {found.low} to {found.high} through zero"


@dataclass(frozen=True)
class StepAboveZero(LaunchCheck):
    """The step of a loop is above zero."""

    step: Linear

    def _terms(self) -> Iterable[Linear]:
        return (self.step,)

    def _formula(self) -> Formula:
        return AtLeastZero(self.step - 1)

    def _is_met(self, numbers: TermIntervals) -> bool:
        return numbers.of(self.step).low > 0

    def _problem(self, numbers: TermIntervals) -> str:
        return f"the step of `range`, `{self.step}`, is {numbers.of(self.step).low}, not above zero"


@dataclass(frozen=True)
class Precondition(LaunchCheck):
    """The condition of a `tw.require`."""

    formula: Formula
    text: str

    needs_blocks: ClassVar[bool] = False

    def _terms(self) -> Iterable[Linear]:
        return self.formula.terms()

    def _formula(self) -> Formula:
        return self.formula

    def _is_met(self, numbers: TermIntervals) -> bool:
        return self.formula.truth(numbers) is True

    def _problem(self, numbers: TermIntervals) -> str:
        return f"the kernel requires `{self.text}`"


@dataclass(frozen=True)
class BlockCondition(Precondition):
    """A condition of the blocks that come to one place of the kernel."""

    needs_blocks: ClassVar[bool] = True


def _known_in(terms: Iterable[Linear]) -> frozenset[LaunchTerm]:
    return frozenset(atom.term for atom in atoms_of(terms) if isinstance(atom, Known))


def _axis(site: CheckSite) -> str:
    return f"`{site.subject}`, axis {site.axis}"


def _size(site: CheckSite, count: int) -> str:
    if count <= 0:
        return "the axis is empty"
    return f"the axis has {count} {site.noun}{'' if count == 1 else 's'}, 0 to {count - 1}"
