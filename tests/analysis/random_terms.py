"""Random terms beside the plain Python that they stand for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hypothesis import strategies as st

from tilewright.analysis.arithmetic import (
    greatest,
    held,
    known,
    least,
    nonzero,
    product,
    quotient,
    remainder,
)
from tilewright.analysis.intervals import Interval, MachineType
from tilewright.analysis.terms import Atom, Known, Linear, Origin, TermIntervals, Variable, number
from tilewright.ir.launch_terms import Extent, LaunchTerm, ScalarArgument, TileCount

EXTENT, OTHER, SCALAR = Extent("x", 0), Extent("y", 0), ScalarArgument("n")
NARROW = MachineType(4)
Setting = Mapping[LaunchTerm | str, int]


@dataclass(frozen=True)
class Sample:
    """A term, and what it means."""

    term: Linear
    meaning: Callable[[Setting], int]


def wrapped(value: int) -> int:
    return (value + 8) % 16 - 8


def tiles(tile: int, extent: Extent = EXTENT) -> Sample:
    term = known(TileCount(extent.param, extent.axis, tile))
    return Sample(term, lambda s: -(-s[extent] // tile))


def variable(name: str, low: Sample, high: Sample, serial: int) -> Sample:
    """Something between two others."""
    bounds = (low.term,), (high.term,)
    atom = Variable(serial, name, Origin.LOOP, Interval(-1000, 1000), *bounds)
    return Sample(Linear.of(atom), lambda s: s[name])


def constant(value: int) -> Sample:
    return Sample(number(value), lambda _: value)


LEAVES = [
    Sample(known(EXTENT), lambda s: s[EXTENT]),
    Sample(known(OTHER), lambda s: s[OTHER]),
    Sample(known(SCALAR), lambda s: s[SCALAR]),
    tiles(2),
    tiles(3),
    tiles(4),
    tiles(4, OTHER),
]
K = variable("k", constant(0), Sample(tiles(2).term - 1, lambda s: 0), 1)
J = variable("j", constant(-2), K, 2)
BINARY: dict[str, tuple[Callable[..., Linear], Callable[[int, int], int]]] = {
    "+": (lambda a, b: a + b, lambda a, b: a + b),
    "-": (lambda a, b: a - b, lambda a, b: a - b),
    "*": (product, lambda a, b: a * b),
    "min": (lambda a, b: least((a, b)), min),
    "max": (lambda a, b: greatest((a, b)), max),
    "//": (lambda a, b: quotient(a, nonzero(b)), lambda a, b: a // (b or 1)),
    "%": (lambda a, b: remainder(a, nonzero(b)), lambda a, b: a % (b or 1)),
}


def combined(symbol: str, left: Sample, right: Sample) -> Sample:
    make, compute = BINARY[symbol]
    term = make(left.term, right.term)
    return Sample(term, lambda s: compute(left.meaning(s), right.meaning(s)))


def narrowed(sample: Sample) -> Sample:
    return Sample(held(sample.term, NARROW), lambda s: wrapped(sample.meaning(s)))


def samples(leaves: list[Sample]) -> st.SearchStrategy[Sample]:
    numbers = st.integers(-5, 6).map(constant)
    return st.recursive(
        st.one_of(st.sampled_from(leaves), numbers),
        lambda inner: st.one_of(
            st.builds(combined, st.sampled_from(sorted(BINARY)), inner, inner),
            st.builds(combined, st.sampled_from(["//", "%", "*"]), inner, numbers),
            st.builds(narrowed, inner),
        ),
        max_leaves=5,
    )


SETTINGS = st.fixed_dictionaries(
    {EXTENT: st.integers(0, 13), OTHER: st.integers(0, 13), SCALAR: st.integers(-6, 6)}
)


class Concrete(TermIntervals):
    """The number that each term has in one setting."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    def of(self, term: Linear) -> Interval:
        return term.interval(self)

    def at(self, atom: Atom) -> Interval:
        if isinstance(atom, Variable):
            return Interval(self.setting[atom.name], self.setting[atom.name])
        return atom.interval(self)

    def known(self, atom: Known) -> Interval:
        term = atom.term
        if isinstance(term, TileCount):
            value = -(-self.setting[Extent(term.param, term.axis)] // term.tile)
        else:
            value = self.setting[term]
        return Interval(value, value)
