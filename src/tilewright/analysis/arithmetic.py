"""Arithmetic on terms, simplified as it is built, so that equal values get equal terms.

Each function is exact for mathematical integers. `held` wraps a result to a machine type; `unheld`
removes wraps where only the low bits matter, as in sums and products: those agree with the
machine's modulo its width, with or without intermediate wraps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

from tilewright.analysis.intervals import I32, Interval, MachineType
from tilewright.analysis.operations import (
    Greatest,
    Least,
    NonZero,
    Product,
    Quotient,
    Remainder,
    Wrapped,
)
from tilewright.analysis.terms import Atom, Known, Linear, number
from tilewright.ir.launch_terms import Blocks, Extent, GridExtent, LaunchTerm, TileCount

__all__ = [
    "greatest",
    "held",
    "known",
    "least",
    "nonzero",
    "product",
    "quotient",
    "remainder",
    "unheld",
]

_CHOICES = 16  # of one minimum or maximum; more of them nest
_LARGEST = I32.interval.high
_NARROW: dict[type, Callable[..., Interval]] = {
    Extent: lambda _: Interval(0, _LARGEST),
    TileCount: lambda term: Interval(0, -(-_LARGEST // term.tile)),
    Blocks: lambda _: Interval(1, _LARGEST),
    GridExtent: lambda _: Interval(1, _LARGEST),
}


@lru_cache(maxsize=1024)
def known(term: LaunchTerm, type: MachineType = I32) -> Linear:
    """A launch term, with its interval."""
    if isinstance(term, TileCount) and term.tile == 1:
        term = Extent(term.param, term.axis)  # one number, one name
    narrow = _NARROW.get(term.__class__)
    return Linear.of(Known(term, type.interval if narrow is None else narrow(term)))


def least(terms: Iterable[Linear]) -> Linear:
    """The minimum of some terms."""
    return _extremum(Least, terms, lambda a, b: (b - a).range.low >= 0)


def greatest(terms: Iterable[Linear]) -> Linear:
    """The maximum of some terms."""
    return _extremum(Greatest, terms, lambda a, b: (a - b).range.low >= 0)


def _extremum(
    kind: type[Least | Greatest],
    terms: Iterable[Linear],
    is_enough: Callable[[Linear, Linear], bool],
) -> Linear:
    kept: list[Linear] = []
    for term in _flattened(kind, terms):
        if any(is_enough(other, term) for other in kept):
            continue
        kept = [other for other in kept if not is_enough(term, other)]
        kept.append(term)
    return kept[0] if len(kept) == 1 else Linear.of(kind(tuple(kept)))


def _flattened(kind: type[Least | Greatest], terms: Iterable[Linear]) -> Iterable[Linear]:
    """The choices of nested extrema, while they are few: each is compared with each."""
    for term in terms:
        atom = term.atom
        if isinstance(atom, kind) and len(atom.choices) < _CHOICES:
            yield from atom.choices
        else:
            yield term


def product(left: Linear, right: Linear) -> Linear:
    """Two terms multiplied out."""
    total = left.times(right.constant) + (right - right.constant).times(left.constant)
    for a, times_a in left.coefficients.items():
        for b, times_b in right.coefficients.items():
            total += Linear.of(Product(tuple(dict.fromkeys((a, b)))), times_a * times_b)
    return total


def quotient(dividend: Linear, divisor: Linear) -> Linear:
    """Python's `//`; the divisor is not zero."""
    if not divisor.is_constant:
        return number(1) if dividend == divisor else Linear.of(Quotient(dividend, divisor))
    by = divisor.constant
    if by < 0:
        dividend, by = -dividend, -by
    whole, rest = _split(dividend, by)
    low, high = rest.range.low // by, rest.range.high // by
    if low == high:
        return whole + low
    return whole + (_tile_count(rest, by) or _nested(rest, by) or _plain(Quotient, rest, by))


def remainder(dividend: Linear, divisor: Linear) -> Linear:
    """Python's `%`; the divisor is not zero."""
    if not divisor.is_constant:
        return number(0) if dividend == divisor else Linear.of(Remainder(dividend, divisor))
    by = divisor.constant
    if by < 0:
        return -remainder(-dividend, number(-by))
    _, rest = _split(dividend, by)
    low, high = rest.range.low // by, rest.range.high // by
    return rest - low * by if low == high else _plain(Remainder, rest, by)


def _split(term: Linear, by: int) -> tuple[Linear, Linear]:
    """The part of a term that a positive number divides, divided by it, and the rest."""
    whole, rest = {}, {}
    for atom, coefficient in term.coefficients.items():
        if coefficient % by:
            rest[atom] = coefficient
        else:
            whole[atom] = coefficient // by
    return Linear(term.constant // by, whole), Linear(term.constant % by, rest)


def _plain(kind: type[Quotient | Remainder], dividend: Linear, by: int) -> Linear:
    return Linear.of(kind(dividend, number(by)))


def _tile_count(dividend: Linear, by: int) -> Linear | None:
    """The tile count that `-(-extent // t)` and `(extent + t - 1) // t` are equal to."""
    if len(dividend.coefficients) != 1:
        return None
    ((atom, coefficient),) = dividend.coefficients.items()
    count = _coarser(atom, by)
    if count is None:
        return None
    if coefficient == -1 and dividend.constant == 0:
        return -known(count)
    return known(count) if coefficient == 1 and dividend.constant == by - 1 else None


def _coarser(atom: Atom, by: int) -> TileCount | None:
    term = atom.term if isinstance(atom, Known) else None
    if isinstance(term, Extent):
        return TileCount(term.param, term.axis, by)
    if isinstance(term, TileCount):
        return TileCount(term.param, term.axis, term.tile * by)
    return None


def _nested(dividend: Linear, by: int) -> Linear | None:
    """`(n // a + c) // b` is `(n + c*a) // (a*b)`."""
    if len(dividend.coefficients) != 1:
        return None
    ((atom, coefficient),) = dividend.coefficients.items()
    if coefficient != 1 or not isinstance(atom, Quotient) or not atom.divisor.is_constant:
        return None
    inner = atom.divisor.constant
    return quotient(atom.dividend + dividend.constant * inner, number(inner * by))


def nonzero(term: Linear) -> Linear:
    """A divisor after its check: one in place of zero."""
    low, high = term.range.low, term.range.high
    if low > 0 or high < 0:
        return term
    return number(1) if low == high else Linear.of(NonZero(term))


def held(term: Linear, type: MachineType) -> Linear:
    """A term wrapped to a machine type."""
    if type.interval.contains(term.range):
        return term
    if term.is_constant:
        return number(type.hold(term.range).low)
    return Linear.of(Wrapped(term, type))


def unheld(term: Linear, bits: int) -> Linear:
    """A term congruent to this one modulo `2**bits`, with fewer wraps."""
    if not any(isinstance(atom, Wrapped) for atom in term.coefficients):
        return term
    total = number(term.constant)
    for atom, coefficient in term.coefficients.items():
        inside = isinstance(atom, Wrapped) and atom.type.bits >= bits
        part = atom.value if inside and isinstance(atom, Wrapped) else Linear.of(atom)
        total += part.times(coefficient)
    return total
