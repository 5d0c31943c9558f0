"""Formulas: conditions on terms, with the facts they imply when true and when false.

A formula is kept with its negations pushed down to the comparisons, so both branches of an `if`
read their facts the same way. A condition that is not tracked is `OPAQUE`, which implies nothing
either way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from tilewright.analysis.terms import Linear, TermIntervals
from tilewright.ir.attributes import Predicate
from tilewright.ir.launch_terms import LaunchTerm

__all__ = [
    "FALSE",
    "OPAQUE",
    "TRUE",
    "AllOf",
    "AnyOf",
    "AtLeastZero",
    "Formula",
    "Opaque",
    "all_of",
    "any_of",
    "compare",
]


class Formula(ABC):
    """A condition that is true or false."""

    @abstractmethod
    def negated(self) -> Formula:
        """Its negation."""

    def facts(self) -> tuple[Linear, ...]:
        """Terms that are at least zero wherever it is true."""
        return ()

    def truth(self, numbers: TermIntervals) -> bool | None:
        """Whether it is true, if the intervals decide."""
        return None

    def as_python(self, text_of: Callable[[LaunchTerm], str]) -> str | None:
        """Python text for its truth at a launch; None if sums of launch terms do not express it."""
        del text_of
        return None

    def terms(self) -> Iterator[Linear]:
        """Every term that it compares."""
        return iter(())

    @cached_property
    def size(self) -> int:
        """Number of conditions in it, counted with repetition."""
        return 1

    @cached_property
    def height(self) -> int:
        """Nesting depth of formulas, this one included."""
        return 1

    @property
    def is_launch_known(self) -> bool:
        """Whether it has one truth value for a whole launch, which the host can evaluate."""
        return all(term.is_launch_known for term in self.terms())


@dataclass(frozen=True)
class Opaque(Formula):
    """A condition that is not tracked."""

    def negated(self) -> Formula:
        return self

    @property
    def is_launch_known(self) -> bool:
        return False


@dataclass(frozen=True)
class AtLeastZero(Formula):
    """A term that is at least zero."""

    term: Linear

    def negated(self) -> Formula:
        return AtLeastZero(-self.term - 1)

    def facts(self) -> tuple[Linear, ...]:
        return (self.term,)

    def truth(self, numbers: TermIntervals) -> bool | None:
        interval = numbers.of(self.term)
        if interval.low >= 0:
            return True
        return False if interval.high < 0 else None

    def as_python(self, text_of: Callable[[LaunchTerm], str]) -> str | None:
        text = self.term.as_python(text_of)
        return None if text is None else f"{text} >= 0"

    def terms(self) -> Iterator[Linear]:
        yield self.term


@dataclass(frozen=True)
class Several(Formula):
    """A formula of several parts."""

    parts: tuple[Formula, ...]

    @cached_property
    def size(self) -> int:
        return sum(part.size for part in self.parts)

    @cached_property
    def height(self) -> int:
        return 1 + max((part.height for part in self.parts), default=0)

    def _joined(self, word: str, nothing: str, text_of: Callable[[LaunchTerm], str]) -> str | None:
        texts = [part.as_python(text_of) for part in self.parts]
        if None in texts:
            return None
        return word.join(f"({text})" for text in texts) or nothing

    def terms(self) -> Iterator[Linear]:
        for part in self.parts:
            yield from part.terms()

    @property
    def is_launch_known(self) -> bool:
        return all(part.is_launch_known for part in self.parts)


@dataclass(frozen=True)
class AllOf(Several):
    """True when every part is."""

    def negated(self) -> Formula:
        return AnyOf(tuple(part.negated() for part in self.parts))

    def facts(self) -> tuple[Linear, ...]:
        return tuple(fact for part in self.parts for fact in part.facts())

    def truth(self, numbers: TermIntervals) -> bool | None:
        found = {part.truth(numbers) for part in self.parts}
        if False in found:
            return False
        return None if None in found else True

    def as_python(self, text_of: Callable[[LaunchTerm], str]) -> str | None:
        return self._joined(" and ", "True", text_of)


@dataclass(frozen=True)
class AnyOf(Several):
    """True when some part is."""

    def negated(self) -> Formula:
        return AllOf(tuple(part.negated() for part in self.parts))

    def facts(self) -> tuple[Linear, ...]:
        # A part that no launch satisfies is never the true one.
        possible = [part for part in self.parts if part.truth(TermIntervals()) is not False]
        return possible[0].facts() if len(possible) == 1 else ()

    def truth(self, numbers: TermIntervals) -> bool | None:
        found = {part.truth(numbers) for part in self.parts}
        if True in found:
            return True
        return None if None in found else False

    def as_python(self, text_of: Callable[[LaunchTerm], str]) -> str | None:
        return self._joined(" or ", "False", text_of)


# The empty conjunction, the empty disjunction, and the formula without facts.
TRUE = AllOf(())
FALSE = AnyOf(())  # no part could be true
OPAQUE = Opaque()  # true or false, without facts


# A choice names its condition twice, so a row of choices doubles with every step. Beyond this size
# or depth, the rest of a formula becomes opaque.
_SIZE = 128
_HEIGHT = 16


def all_of(*parts: Formula) -> Formula:
    """True when every part is; parts beyond the limits of size become opaque."""
    return _several(AllOf, parts)


def any_of(*parts: Formula) -> Formula:
    """True when some part is; parts beyond the limits of size become opaque."""
    return _several(AnyOf, parts)


def _several(kind: type[AllOf | AnyOf], parts: tuple[Formula, ...]) -> Formula:
    """A flat conjunction or disjunction, with as many parts as the limits allow."""
    kept: list[Formula] = []
    room = _SIZE
    for part in parts:
        for inner in part.parts if isinstance(part, kind) else (part,):
            fits = inner.size <= room and inner.height < _HEIGHT
            if fits or OPAQUE not in kept:
                kept.append(inner if fits else OPAQUE)
                room -= inner.size if fits else 0
    return kind(tuple(kept))


def compare(predicate: Predicate, left: Linear, right: Linear) -> Formula:
    """The formula of a comparison of integers."""
    return _COMPARISONS[predicate](left, right)


def _at_least(left: Linear, right: Linear) -> Formula:
    return AtLeastZero(left - right)


def _equal(left: Linear, right: Linear) -> Formula:
    return all_of(_at_least(left, right), _at_least(right, left))


_COMPARISONS: dict[Predicate, Callable[[Linear, Linear], Formula]] = {
    Predicate.EQUAL: _equal,
    Predicate.NOT_EQUAL: lambda left, right: _equal(left, right).negated(),
    Predicate.LESS_THAN: lambda left, right: _at_least(right - 1, left),
    Predicate.LESS_THAN_OR_EQUAL: lambda left, right: _at_least(right, left),
    Predicate.GREATER_THAN: lambda left, right: _at_least(left - 1, right),
    Predicate.GREATER_THAN_OR_EQUAL: _at_least,
}
