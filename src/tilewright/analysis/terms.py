"""Symbolic integers: an index in terms of the launch, the block and the loops around it.

A `Linear` is a sum of atoms with whole coefficients, in normal form: equal sums are equal objects.
An atom is a launch term (`Known`), a number that varies inside a kernel (`Variable`), or a
non-linear operation (`operations`). Terms are mathematical integers, never machine ones, and plain
data that can be pickled, so a launch check can be kept in a cache. Proofs about terms are in
`proofs`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
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
    "Origin",
    "TermIntervals",
    "Variable",
    "atoms_of",
    "number",
]


class TermIntervals:
    """The numeric intervals of terms. This class assumes only the limits of every launch."""

    def of(self, term: Linear) -> Interval:
        """The interval of a term."""
        return term.range

    def at(self, atom: Atom) -> Interval:
        """The interval of an atom."""
        return atom.range

    def known(self, atom: Known) -> Interval:
        """The interval of a launch term."""
        return atom.bounds


_EVERY_LAUNCH = TermIntervals()
_LONGEST_TEXT = 200  # of one atom in a message


class Atom(ABC):
    """An atom of a sum. Equality is by class and fields; the hash is cached."""

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
        if not isinstance(other, Atom) or type(self) is not type(other):
            return False
        if self._hash != other._hash or self._key != other._key:
            return False
        # Equal atoms share one key from now on: the next comparison is immediate, even for deep
        # atoms with shared parts.
        vars(other)["_key"] = self._key
        return True

    def __reduce__(self) -> tuple[Any, ...]:
        # Hashes of text differ between processes, so the cached one is not pickled.
        return type(self), tuple(getattr(self, f.name) for f in fields(cast("Any", self)))

    @abstractmethod
    def interval(self, numbers: TermIntervals) -> Interval:
        """Its interval, from the intervals of its parts."""

    @property
    def parts(self) -> tuple[Linear, ...]:
        """The terms it consists of."""
        return ()

    @cached_property
    def range(self) -> Interval:
        """Its interval over all launches."""
        return self.interval(_EVERY_LAUNCH)

    @cached_property
    def height(self) -> int:
        """Nesting depth of atoms, this one included."""
        return 1 + max((part.height for part in self.parts), default=0)

    @cached_property
    def is_launch_known(self) -> bool:
        """Whether it is one number at each launch."""
        return all(part.is_launch_known for part in self.parts)

    @cached_property
    def is_evaluable(self) -> bool:
        """Whether its interval can be evaluated at a launch."""
        return all(part.is_evaluable for part in self.parts)

    @cached_property
    def shown(self) -> str:
        """Its text, limited in length: terms share their parts, a text would repeat them."""
        text = str(self)
        return text if len(text) <= _LONGEST_TEXT else "…"


@dataclass(frozen=True, eq=False)
class Linear:
    """`constant` plus the sum of atoms times their non-zero `coefficients`."""

    constant: int
    coefficients: Mapping[Atom, int] = field(default_factory=dict)

    @staticmethod
    def of(atom: Atom, coefficient: int = 1) -> Linear:
        """An atom times a coefficient."""
        return Linear(0, {atom: coefficient})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Linear):
            return NotImplemented
        if self is other:
            return True
        return self.constant == other.constant and self.coefficients == other.coefficients

    @cached_property
    def _hash(self) -> int:
        return hash((self.constant, frozenset(self.coefficients.items())))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        # As for atoms, the cached hash is not pickled.
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
        """The sum times a factor."""
        if factor == 0:
            return Linear(0)
        scaled = {atom: coefficient * factor for atom, coefficient in self.coefficients.items()}
        return Linear(self.constant * factor, scaled)

    def without(self, atom: Atom) -> Linear:
        """The sum without one atom."""
        rest = {other: c for other, c in self.coefficients.items() if other != atom}
        return Linear(self.constant, rest)

    @property
    def is_constant(self) -> bool:
        """Whether it is one number."""
        return not self.coefficients

    @property
    def atom(self) -> Atom | None:
        """The atom, if the term consists of just one."""
        if self.constant == 0 and len(self.coefficients) == 1:
            ((atom, coefficient),) = self.coefficients.items()
            return atom if coefficient == 1 else None
        return None

    @cached_property
    def range(self) -> Interval:
        """Its interval over all launches."""
        return self.interval(_EVERY_LAUNCH)

    def interval(self, numbers: TermIntervals) -> Interval:
        """Its interval, from the intervals of its atoms."""
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
        """Every variable in it, nested ones too, each once."""
        return (atom for atom in self.atoms() if isinstance(atom, Variable))

    @cached_property
    def is_launch_known(self) -> bool:
        """Whether it is one number at each launch, the same everywhere in the kernel."""
        return all(atom.is_launch_known for atom in self.coefficients)

    @cached_property
    def is_evaluable(self) -> bool:
        """Whether its interval can be evaluated at a launch."""
        return all(atom.is_evaluable for atom in self.coefficients)

    @cached_property
    def height(self) -> int:
        """Nesting depth of atoms."""
        return max((atom.height for atom in self.coefficients), default=0)

    def atoms(self) -> Iterator[Atom]:
        """Every atom in it, once; nested ones and those in the bounds of variables included."""
        return atoms_of((self,))

    @cached_property
    def repeats_variables(self) -> bool:
        """Whether a variable occurs in it more than once.

        Atoms are shared, and each is visited once: the second path to one is the repetition.
        """
        seen: set[Atom] = set()
        pending: list[Linear] = [self]
        while pending:
            for atom in pending.pop().coefficients:
                if atom.is_launch_known:
                    continue
                if atom in seen:
                    return True
                seen.add(atom)
                pending.extend(atom.parts)
        return False

    def __str__(self) -> str:
        text = ""
        for atom, coefficient in self.coefficients.items():
            size = "" if abs(coefficient) == 1 else f"{abs(coefficient)}*"
            text += f"{_sign(coefficient, text)}{size}{atom.shown}"
        if self.constant or not text:
            text += f"{_sign(self.constant, text)}{abs(self.constant)}"
        return text


@dataclass(frozen=True, eq=False)
class Known(Atom):
    """A number known at launch."""

    term: LaunchTerm
    bounds: Interval

    def interval(self, numbers: TermIntervals) -> Interval:
        return numbers.known(self)

    def __str__(self) -> str:
        return str(self.term)


class Origin(Enum):
    """The reason why a number varies inside a kernel."""

    LOOP = "the counter of a loop"
    BLOCK = "the place of the block in the grid"
    WALK = "a coordinate of the walked tile"
    JOIN = "chosen at run time"
    CARRIED = "changed by a loop"
    COMPUTED = "computed in a way that is not followed"
    MEMORY = "read from memory"

    @property
    def is_attained(self) -> bool:
        """Whether both ends of the range are attained whenever the code runs."""
        return self in (Origin.LOOP, Origin.BLOCK, Origin.WALK)


@dataclass(frozen=True, eq=False)
class Variable(Atom):
    """A number that varies inside a kernel, between every lower and every upper term.

    `serial` tells variables of one kernel apart.
    """

    serial: int
    name: str = field(compare=False)
    origin: Origin = field(compare=False)
    bounds: Interval = field(compare=False)
    lowers: tuple[Linear, ...] = field(compare=False, default=())
    uppers: tuple[Linear, ...] = field(compare=False, default=())

    def interval(self, numbers: TermIntervals) -> Interval:
        low = max([self.bounds.low, *(numbers.of(term).low for term in self.lowers)])
        high = min([self.bounds.high, *(numbers.of(term).high for term in self.uppers)])
        # An empty range belongs to code that never runs: any answer is sound there.
        return Interval(min(low, high), max(low, high))

    @property
    def parts(self) -> tuple[Linear, ...]:
        return self.lowers + self.uppers

    @cached_property
    def is_launch_known(self) -> bool:
        return False

    @cached_property
    def is_evaluable(self) -> bool:
        return self.is_followed and all(part.is_evaluable for part in self.parts)

    @property
    def is_followed(self) -> bool:
        """Whether its bounds are terms, and not only the limits of its type."""
        if self.origin is Origin.CARRIED:
            return bool(self.lowers and self.uppers)
        return self.origin.is_attained or self.origin is Origin.JOIN

    def __str__(self) -> str:
        return self.name or "?"


def atoms_of(terms: Iterable[Linear]) -> Iterator[Atom]:
    """Every atom in some terms, nested ones too, each once: the terms form a graph with sharing."""
    seen: set[Atom] = set()
    pending = [iter(term.coefficients) for term in reversed(tuple(terms))]
    while pending:
        atom = next(pending[-1], None)
        if atom is None:
            pending.pop()
        elif atom not in seen:
            seen.add(atom)
            yield atom
            pending.extend(iter(part.coefficients) for part in reversed(atom.parts))


def number(value: int) -> Linear:
    """A constant term."""
    return Linear(value)


def _sign(coefficient: int, before: str) -> str:
    if before:
        return " - " if coefficient < 0 else " + "
    return "-" if coefficient < 0 else ""
