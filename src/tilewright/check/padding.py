"""Reductions in which padding takes part: found in the kernel, and told of where a launch has some.

The last tile along an axis that its tile does not divide is padded, by default with 0. A sum of
elements as they are does not notice; a maximum of negative numbers does, and so does a sum of
exponentials. Found here is every reduction, and every product of matrices, along an axis whose
padding is not known to be neutral there (`analysis.padding_lanes`). A mean counts the elements of
its tile: padding makes its divisor too large, whatever it holds. Whether there is padding at all is
known at launch: only then is it a matter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from tilewright.analysis.padding_facts import Lane, Lanes, Origin
from tilewright.analysis.padding_lanes import padding_lanes
from tilewright.analysis.padding_numbers import is_identity
from tilewright.ir.attributes import FloatIdentity, IntIdentity
from tilewright.ir.function import Function
from tilewright.ir.launch_terms import Extent, LaunchTerm
from tilewright.ir.op import Op, Value
from tilewright.ir.ops.internal import Averaged
from tilewright.ir.ops.reduction import MmaF, MmaI, Reduce, Scan
from tilewright.ir.types import TileType
from tilewright.source import Location

__all__ = ["PaddedReduction", "padded_reductions"]


@dataclass(frozen=True)
class PaddedReduction:
    """A reduction along an axis of a tensor whose padding it would notice."""

    location: Location
    extent: Extent
    tile: int
    is_first: bool  # only the first tile is read
    became: str  # what the padding is by then; empty: nothing that is known
    padding: str  # what would not be noticed, as an argument of `partition`; empty: nothing
    is_counted: bool = False  # by the divisor of a mean

    def is_noticed(self, environment: Mapping[LaunchTerm, int]) -> bool:
        """Whether a launch with these numbers has padding there."""
        extent = environment[self.extent]
        return 0 < extent < self.tile if self.is_first else extent % self.tile != 0

    def as_python(self, text_of: Callable[[LaunchTerm], str]) -> str:
        """That a launch has no padding there, over the text of its extent."""
        extent = text_of(self.extent)
        return (
            f"not 0 < {extent} < {self.tile}" if self.is_first else f"{extent} % {self.tile} == 0"
        )

    def describe(self, environment: Mapping[LaunchTerm, int]) -> str:
        """What happens, why, and the way out, for people."""
        name, axis, number = self.extent.param, self.extent.axis, environment[self.extent]
        return (
            f"axis {axis} of `{name}` has {number} elements, which tiles of {self.tile} do not "
            f"divide, and {self._what_happens()}"
        )

    def _what_happens(self) -> str:
        if self.is_counted:
            count = f"{self.extent.param}.shape[{self.extent.axis}].astype(t.dtype)"
            return (
                "tw.mean divides by the number of elements of the tile, padding included: divide "
                f"the sum by the number of those that count, as `tw.sum(t) / {count}` does"
            )
        load = f"load with `padding={self.padding}`, or mask" if self.padding else "mask"
        what = self.became or "what the computation has made of the padding"
        return f"{what} takes part in this reduction: {load} what lies outside with tw.where"


def padded_reductions(function: Function) -> tuple[PaddedReduction, ...]:
    """Every reduction of a function that would notice padding; loads are as the front end made."""
    lanes = padding_lanes(function)
    return tuple(dict.fromkeys(note for op in function.walk() for note in _notes(op, lanes)))


def _notes(op: Op, lanes: Mapping[Value, Lanes]) -> Iterator[PaddedReduction]:
    if op.loc is not None and isinstance(op, (Reduce, Scan)):
        yield from _noticing(op, op.loc, lanes)
    if op.loc is not None and isinstance(op, (MmaF, MmaI)):
        yield from _multiplied(op, op.loc, lanes)
    if op.loc is not None and isinstance(op, Averaged):
        yield from _counted(op, op.loc, lanes)


def _counted(
    op: Averaged, location: Location, lanes: Mapping[Value, Lanes]
) -> Iterator[PaddedReduction]:
    """A mask changes the sum of a mean and leaves its divisor."""
    for origin, lane in lanes.get(op.source, Lanes()).by_origin.items():
        if lane.axis in op.dims:
            note = _note(location, origin, lane, "")
            yield replace(note, is_counted=True)


def _noticing(
    op: Reduce | Scan, location: Location, lanes: Mapping[Value, Lanes]
) -> Iterator[PaddedReduction]:
    if isinstance(op, Scan) and not op.reverse:
        return  # padding lies behind all elements, and is combined with none of them
    found: dict[Origin, tuple[Lane, str]] = {}
    neutral: set[Origin] = set()  # one of several tiles that are reduced together decides
    for source, identity in zip(op.sources, op.identities, strict=True):
        for origin, lane in _along(lanes, source, op.dim):
            if is_identity(lane.value, identity):
                neutral.add(origin)
            found.setdefault(origin, (lane, _as_padding(identity) if lane.as_loaded else ""))
    for origin, (lane, way_out) in found.items():
        if origin not in neutral:
            yield _note(location, origin, lane, way_out)


def _multiplied(
    op: MmaF | MmaI, location: Location, lanes: Mapping[Value, Lanes]
) -> Iterator[PaddedReduction]:
    """A product adds up along the last axis of one side and the last but one of the other."""
    assert isinstance(op.lhs.type, TileType)
    rank = len(op.lhs.type.shape)
    for side, axis, other in ((op.lhs, rank - 1, op.rhs), (op.rhs, rank - 2, op.lhs)):
        for origin, lane in _along(lanes, side, axis):
            if lane.value != 0 and lanes.get(other, Lanes()).at(origin) != 0:
                yield _note(location, origin, lane, "")


def _along(
    lanes: Mapping[Value, Lanes], value: Value, axis: int
) -> Iterator[tuple[Origin, Lane]]:  # fmt: skip
    known = lanes.get(value)
    for origin, lane in () if known is None else known.by_origin.items():
        if lane.axis == axis and not lane.is_masked:
            yield origin, lane


def _note(location: Location, origin: Origin, lane: Lane, padding: str) -> PaddedReduction:
    became = "" if lane.value is None else f"the {lane.value:g} that its padding has become"
    if lane.as_loaded and lane.value is not None:
        became = f"the {lane.value:g} that the last tile is padded with"
    return PaddedReduction(location, origin.extent, origin.tile, lane.is_first, became, padding)


def _as_padding(identity: FloatIdentity | IntIdentity) -> str:
    if isinstance(identity, FloatIdentity) and math.isinf(identity.value):
        return f"{identity.value}"
    return ""
