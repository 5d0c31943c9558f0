"""The lattice of padding: facts about the padding of one tile, and their join.

Independent of ops: `padding_lanes` has the transfer functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain

from tilewright.analysis.padding_numbers import Number
from tilewright.ir.launch_terms import Extent, LaunchTerm

__all__ = ["NOTHING", "CutAxis", "Lane", "Lanes", "joined"]


@dataclass(frozen=True)
class CutAxis:
    """An axis of a tensor that is cut into tiles, or read in windows."""

    extent: Extent
    tile: int
    step: int | None = None  # between the starts of windows; None: tiles are adjacent
    visited: LaunchTerm | None = None  # how many windows are read; None: the first alone


@dataclass(frozen=True)
class Lane:
    """The padding of one origin in a tile: its axis, and its number; None is unknown."""

    axis: int
    value: Number | None
    as_loaded: bool = True
    is_masked: bool = False  # a mask of the author's has replaced it
    is_first: bool = False  # the load reads only the first tile along the axis


@dataclass(frozen=True)
class Lanes:
    """Facts about a tile: the number that all its elements are, or its padding by origin.

    A loop-carried tile accumulates other tiles: its own elements are no padding, and padding
    combined with them counts as it is.
    """

    uniform: Number | None = None
    by_origin: Mapping[CutAxis, Lane] = field(default_factory=dict)
    is_carried: bool = False

    def at(self, origin: CutAxis) -> Number | None:
        """The number in the padding of an origin."""
        lane = self.by_origin.get(origin)
        return self.uniform if lane is None else lane.value

    def moved(self, axis_of: Callable[[int], int | None]) -> Lanes:
        """The same facts with axes renumbered; None drops an axis."""
        pairs = ((origin, lane, axis_of(lane.axis)) for origin, lane in self.by_origin.items())
        found = {o: replace(lane, axis=axis) for o, lane, axis in pairs if axis is not None}
        return Lanes(self.uniform, found, self.is_carried)


NOTHING = Lanes()  # of a tile that is not tracked


def joined(left: Lanes, right: Lanes) -> Lanes:
    """The join of two facts; an origin unknown to one side is left out."""
    lanes: dict[CutAxis, Lane] = {}
    for origin in chain(left.by_origin, right.by_origin):
        one, other = left.by_origin.get(origin), right.by_origin.get(origin)
        known = one or other
        assert known is not None
        if one is not None and other is not None and one.axis != other.axis:
            continue
        numbers = {
            lane.value if lane is not None else side.uniform
            for lane, side in ((one, left), (other, right))
            if lane is not None or side.uniform is not None
        }
        sides = [lane for lane in (one, other) if lane is not None]
        value = numbers.pop() if len(numbers) == 1 else None
        lanes[origin] = replace(
            known,
            value=value,
            as_loaded=all(lane.as_loaded for lane in sides),
            is_masked=all(lane.is_masked for lane in sides),
            is_first=all(lane.is_first for lane in sides),
        )
    uniform = left.uniform if not lanes and left.uniform == right.uniform else None
    is_carried = not lanes and uniform is None and (left.is_carried or right.is_carried)
    return Lanes(uniform, lanes, is_carried)
