"""Symbolic integers: what an index is, in terms of the launch, the block and the loops around it.

A `Linear` is a sum of atoms with whole coefficients, in normal form: equal sums are equal objects.
An atom is something known at launch (`Known`), something that varies inside a kernel (`Variable`),
or an operation that a sum cannot express (`operations`). Terms are mathematical integers, never
machine ones, and plain data that can be pickled, so a launch check can be kept in a cache.
Proofs about terms are in `proofs`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from functools import cached_property
from typing import Any, cast

from tilewright.analysis.intervals import Interval
from tilewright.ir.launch_terms import LaunchTerm

__all__ = [
    "Atom",
    "Known",
    "Linear",
    "Numbers",
    "Origin",
    "Variable",
    "number",
]


class Numbers:
    """Gives terms their numeric intervals. This one assumes only what every launch satisfies."""

    def of(self, term: Linear) -> Interval:
        """Where a term can lie."""
        return term.range

    def at(self, atom: Atom) -> Interval:
        """Where an atom can lie."""
        return atom.range

    def known(self, atom: Known) -> Interval:
        """Where something known at launch can lie."""
        return atom.bounds


_EVERY_LAUNCH = Numbers()


class Atom(ABC):
    """What a sum is made of. Equal by kind and fields; the hash, which is asked often, is kept."""

    @cached_property
    def _key(self) -> tuple[Any, ...]:
        return tuple(getattr(self, f.name) for f in fields(cast("Any", self)) if f.compare)

    @cached_property
    def _hash(self) -> int:
        return hash((type(self), self._key))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Atom) and type(self) is type(other) and self._key == other._key

    def __reduce__(self) -> tuple[Any, ...]:
        # Hashes of text differ from process to process, so the kept one stays behind.
        return type(self), tuple(getattr(self, f.name) for f in fields(cast("Any", self)))

    @abstractmethod
    def interval(self, numbers: Numbers) -> Interval:
        """Where it lies, given the intervals of its parts."""

    @property
    def parts(self) -> tuple[Linear, ...]:
        """The terms it is made of."""
        return ()

    @cached_property
    def range(self) -> Interval:
        """Where it lies on every launch."""
        return self.interval(_EVERY_LAUNCH)


@dataclass(frozen=True, eq=False)
class Linear:
    """`constant` plus each atom of `coefficients` times its number, none of which is zero."""

    constant: int
    coefficients: Mapping[Atom, int] = field(default_factory=dict)

    @staticmethod
    def of(atom: Atom, coefficient: int = 1) -> Linear:
        """One atom, some times."""
        return Linear(0, {atom: coefficient})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Linear):
            return NotImplemented
        return self.constant == other.constant and self.coefficients == other.coefficients

    @cached_property
    def _hash(self) -> int:
        return hash((self.constant, frozenset(self.coefficients.items())))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        # As for atoms, the kept hash stays behind.
        return Linear, (self.constant, dict(self.coefficients))

    def __add__(self, other: Linear | int) -> Linear:
        if isinstance(other, int):
            return Linear(self.constant + other, self.coefficients)
        if not other.coefficients:
            return Linear(self.constant + other.constant, self.coefficients)
        sums = dict(self.coefficients)
        for atom, coefficient in other.coefficients.items():
            total = sums.get(atom, 0) + coefficient
            if total:
                sums[atom] = total
            else:
                del sums[atom]
        return Linear(self.constant + other.constant, sums)

    def __sub__(self, other: Linear | int) -> Linear:
        return self + (-other)

    def __neg__(self) -> Linear:
        return self.times(-1)

    def times(self, factor: int) -> Linear:
        """Every part times a number."""
        if factor == 0:
            return Linear(0)
        scaled = {atom: coefficient * factor for atom, coefficient in self.coefficients.items()}
        return Linear(self.constant * factor, scaled)

    def without(self, atom: Atom) -> Linear:
        """The sum of the other parts."""
        rest = {other: c for other, c in self.coefficients.items() if other != atom}
        return Linear(self.constant, rest)

    @property
    def is_constant(self) -> bool:
        """Whether it is one number."""
        return not self.coefficients

    @property
    def atom(self) -> Atom | None:
        """The atom that it is, if it is just that."""
        if self.constant == 0 and len(self.coefficients) == 1:
            ((atom, coefficient),) = self.coefficients.items()
            return atom if coefficient == 1 else None
        return None

    @cached_property
    def range(self) -> Interval:
        """Where it lies on every launch."""
        return self.interval(_EVERY_LAUNCH)

    def interval(self, numbers: Numbers) -> Interval:
        """Where it lies, given where its atoms do."""
        low = high = self.constant
        for atom, coefficient in self.coefficients.items():
            found = numbers.at(atom).scaled(coefficient)
            low, high = low + found.low, high + found.high
        return Interval(low, high)

    def as_python(self, text_of: Callable[[LaunchTerm], str]) -> str | None:
        """Python text for its number at a launch; None if it needs more than a sum."""
        parts = [str(self.constant)]
        for atom, coefficient in self.coefficients.items():
            if not isinstance(atom, Known):
                return None
            parts.append(f"{coefficient} * ({text_of(atom.term)})")
        return " + ".join(parts)

    def variables(self) -> Iterator[Variable]:
        """Every variable in it, nested ones too."""
        return (atom for atom in self.atoms() if isinstance(atom, Variable))

    @property
    def is_launch_known(self) -> bool:
        """Whether it is one number at each launch, the same everywhere in the kernel."""
        return not any(self.variables())

    def atoms(self) -> Iterator[Atom]:
        """Every atom in it, nested ones and those in the ranges of variables too."""
        for atom in self.coefficients:
            yield atom
            for part in atom.parts:
                yield from part.atoms()

    def __str__(self) -> str:
        text = ""
        for atom, coefficient in self.coefficients.items():
            size = "" if abs(coefficient) == 1 else f"{abs(coefficient)}*"
            text += f"{_sign(coefficient, text)}{size}{atom}"
        if self.constant or not text:
            text += f"{_sign(self.constant, text)}{abs(self.constant)}"
        return text


@dataclass(frozen=True, eq=False)
class Known(Atom):
    """Something known at launch."""

    term: LaunchTerm
    bounds: Interval

    def interval(self, numbers: Numbers) -> Interval:
        return numbers.known(self)

    def __str__(self) -> str:
        return str(self.term)


class Origin(Enum):
    """Why something varies inside a kernel."""

    LOOP = "the counter of a loop"
    BLOCK = "the place of the block in the grid"
    WALK = "a coordinate of the walked tile"
    JOIN = "chosen at run time"
    CARRIED = "changed by a loop"
    COMPUTED = "computed in a way that is not followed"
    MEMORY = "read from memory"

    @property
    def is_attained(self) -> bool:
        """Whether both ends of the range occur whenever the code runs at all."""
        return self in (Origin.LOOP, Origin.BLOCK, Origin.WALK)


@dataclass(frozen=True, eq=False)
class Variable(Atom):
    """Something that varies inside a kernel, between every lower and every upper term.

    `serial` tells variables of one kernel apart.
    """

    serial: int
    name: str = field(compare=False)
    origin: Origin = field(compare=False)
    bounds: Interval = field(compare=False)
    lowers: tuple[Linear, ...] = field(compare=False, default=())
    uppers: tuple[Linear, ...] = field(compare=False, default=())

    def interval(self, numbers: Numbers) -> Interval:
        low = max([self.bounds.low, *(numbers.of(term).low for term in self.lowers)])
        high = min([self.bounds.high, *(numbers.of(term).high for term in self.uppers)])
        # An empty range belongs to code that never runs: any answer is right there.
        return Interval(min(low, high), max(low, high))

    @property
    def parts(self) -> tuple[Linear, ...]:
        return self.lowers + self.uppers

    @property
    def is_followed(self) -> bool:
        """Whether its terms say where it lies, and not a mere limit of its type."""
        if self.origin is Origin.CARRIED:
            return bool(self.lowers and self.uppers)
        return self.origin.is_attained or self.origin is Origin.JOIN

    def __str__(self) -> str:
        return self.name or "?"


def number(value: int) -> Linear:
    """A term that is one number."""
    return Linear(value)


def _sign(coefficient: int, before: str) -> str:
    if before:
        return " - " if coefficient < 0 else " + "
    return "-" if coefficient < 0 else ""
