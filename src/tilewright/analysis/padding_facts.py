"""The lattice of padding: facts about the padding of one tile, and their join.

Independent of ops: `padding_lanes` has the transfer functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from itertools import chain
from typing import NamedTuple

from tilewright.analysis.padding_numbers import Number
from tilewright.analysis.terms import Linear

__all__ = [
    "NOTHING",
    "Lane",
    "Lanes",
    "PaddedPlace",
    "Reach",
    "ReachBound",
    "Side",
    "joined",
    "merged",
]


class Side(Enum):
    """The place of padding along its axis."""

    FRONT = auto()  # before all elements
    BEHIND = auto()  # after all elements
    ANYWHERE = auto()


@dataclass(frozen=True)
class ReachBound:
    """A term that is at least zero where a load has no padding on one side."""

    goal: Linear
    side: Side
    beyond: str = field(compare=False)  # the reason of the padding, for messages


@dataclass(frozen=True)
class Reach:
    """The elements of a load along an axis of a tensor, or under a mask.

    Equal reaches have their padding at the same places: those of two tensors of one extent that are
    read at one index are equal.
    """

    bounds: tuple[ReachBound, ...]
    param: str = field(compare=False)
    axis: int | None = field(compare=False)  # of the tensor; None for a mask
    extent: Linear | None = field(compare=False)
    size: int = field(compare=False, default=0)  # elements along the axis; 0 if it has no order

    def part(self, size: int, parts: int, number: int) -> Reach:
        """The reach of one of the parts that a tile is divided into, along its axis."""
        ahead = {Side.FRONT: number, Side.BEHIND: parts - 1 - number, Side.ANYWHERE: 0}
        bounds = (replace(one, goal=one.goal + ahead[one.side] * size) for one in self.bounds)
        return replace(self, bounds=tuple(bounds), size=size)


class PaddedPlace(NamedTuple):
    """The padding of a reach along some axes of a tile."""

    reach: Reach
    axes: frozenset[int]


@dataclass(frozen=True)
class Lane:
    """The number of the padding at one place of a tile; None is unknown.

    Premises are terms that are at least zero wherever it is loaded.
    """

    value: Number | None
    premises: frozenset[Linear] = frozenset()
    as_loaded: bool = True
    is_chosen: bool = False  # by a mask of the author's
    is_ordered: bool = True  # along its axis in the order of the tensor


@dataclass(frozen=True)
class Lanes:
    """Facts about a tile: the number that all its elements are, or its padding by place.

    A loop-carried tile accumulates other tiles: its own elements are no padding, and padding
    combined with them counts as it is.
    """

    uniform: Number | None = None
    by_place: Mapping[PaddedPlace, Lane] = field(default_factory=dict)
    is_carried: bool = False

    def at(self, place: PaddedPlace) -> Number | None:
        """The number in the padding of a place."""
        lane = self.by_place.get(place)
        return self.uniform if lane is None else lane.value

    def moved(self, axes_of: Callable[[int], Iterable[int]]) -> Lanes:
        """The same facts with axes renumbered; padding along no axis is dropped."""
        found: dict[PaddedPlace, Lane] = {}
        for (reach, old), lane in self.by_place.items():
            axes = frozenset(chain.from_iterable(map(axes_of, old)))
            if axes:
                found[PaddedPlace(reach, axes)] = lane
        return Lanes(self.uniform, found, self.is_carried)


NOTHING = Lanes()  # of a tile that is not tracked


def joined(left: Lanes, right: Lanes) -> Lanes:
    """The join of two facts; padding of one side only keeps its number."""
    lanes: dict[PaddedPlace, Lane] = {}
    for place in chain(left.by_place, right.by_place):
        sides = [(lanes.by_place.get(place), lanes.uniform) for lanes in (left, right)]
        found = [lane for lane, _ in sides if lane is not None]
        numbers = {
            lane.value if lane is not None else uniform
            for lane, uniform in sides
            if lane is not None or uniform is not None
        }
        lanes[place] = merged(found, numbers.pop() if len(numbers) == 1 else None)
    uniform = left.uniform if not lanes and left.uniform == right.uniform else None
    is_carried = uniform is None and (left.is_carried or right.is_carried)
    return Lanes(uniform, lanes, is_carried)


def merged(lanes: Sequence[Lane], value: Number | None) -> Lane:
    """The padding of several tiles at one place."""
    return Lane(
        value,
        frozenset[Linear].intersection(*(lane.premises for lane in lanes)),
        as_loaded=all(lane.as_loaded for lane in lanes),
        is_chosen=all(lane.is_chosen for lane in lanes),
        is_ordered=all(lane.is_ordered for lane in lanes),
    )
