"""Non-linear operations on terms, as atoms.

Each is a mathematical function of its parts; `Wrapped` is a wrap to a machine type. Build them
through `arithmetic`, which simplifies.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tilewright.analysis.intervals import Interval, MachineType
from tilewright.analysis.terms import Atom, Known, Linear, TermIntervals

__all__ = ["Greatest", "Least", "NonZero", "Product", "Quotient", "Remainder", "Wrapped"]


@dataclass(frozen=True, eq=False)
class Extremum(Atom):
    """One of several terms. Proofs try them in order, so the order must not depend on hashes."""

    choices: tuple[Linear, ...]

    @cached_property
    def _key(self) -> tuple[Any, ...]:
        return (frozenset(self.choices),)

    @property
    def parts(self) -> tuple[Linear, ...]:
        return self.choices


class Least(Extremum):
    """The minimum of several terms."""

    def interval(self, numbers: TermIntervals) -> Interval:
        found = [numbers.of(term) for term in self.choices]
        return Interval(min(i.low for i in found), min(i.high for i in found))

    def __str__(self) -> str:
        return f"min({', '.join(sorted(map(str, self.choices)))})"


class Greatest(Extremum):
    """The maximum of several terms."""

    def interval(self, numbers: TermIntervals) -> Interval:
        found = [numbers.of(term) for term in self.choices]
        return Interval(max(i.low for i in found), max(i.high for i in found))

    def __str__(self) -> str:
        return f"max({', '.join(sorted(map(str, self.choices)))})"


@dataclass(frozen=True, eq=False)
class Pair(Atom):
    """An operation on a dividend and a non-zero divisor."""

    dividend: Linear
    divisor: Linear

    @property
    def parts(self) -> tuple[Linear, ...]:
        return (self.dividend, self.divisor)


@dataclass(frozen=True, eq=False)
class Quotient(Pair):
    """Python's `//`."""

    def interval(self, numbers: TermIntervals) -> Interval:
        return numbers.of(self.dividend).floor_divide(numbers.of(self.divisor))

    def __str__(self) -> str:
        return f"{_operand(self.dividend)} // {_operand(self.divisor)}"


@dataclass(frozen=True, eq=False)
class Remainder(Pair):
    """Python's `%`."""

    def interval(self, numbers: TermIntervals) -> Interval:
        return numbers.of(self.dividend).floor_remainder(numbers.of(self.divisor))

    def __str__(self) -> str:
        return f"{_operand(self.dividend)} % {_operand(self.divisor)}"


@dataclass(frozen=True, eq=False)
class Product(Atom):
    """The product of two atoms; a single one is squared."""

    factors: tuple[Atom, ...]

    @cached_property
    def _key(self) -> tuple[Any, ...]:
        return (frozenset(self.factors),)

    def interval(self, numbers: TermIntervals) -> Interval:
        found = [numbers.at(factor) for factor in self.factors]
        return found[0] * found[-1]

    @property
    def parts(self) -> tuple[Linear, ...]:
        return tuple(Linear.of(factor) for factor in self.factors)

    def __str__(self) -> str:
        names = sorted(factor.shown for factor in self.factors)
        return f"{names[0]}*{names[-1]}"


@dataclass(frozen=True, eq=False)
class NonZero(Atom):
    """A divisor after its check: itself, or one where it is zero."""

    value: Linear

    def interval(self, numbers: TermIntervals) -> Interval:
        return numbers.of(self.value).without_zero()

    @property
    def parts(self) -> tuple[Linear, ...]:
        return (self.value,)

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, eq=False)
class Wrapped(Atom):
    """A sum wrapped to a machine type."""

    value: Linear
    type: MachineType

    def interval(self, numbers: TermIntervals) -> Interval:
        return self.type.hold(numbers.of(self.value))

    @property
    def parts(self) -> tuple[Linear, ...]:
        return (self.value,)

    def __str__(self) -> str:
        return _operand(self.value)


def _operand(term: Linear) -> str:
    text = str(term)
    return text if term.is_constant or isinstance(term.atom, Known) else f"({text})"
