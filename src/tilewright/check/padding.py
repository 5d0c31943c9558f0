"""Reductions that combine padding: found in the kernel, and warned of at launches with padding.

The last tile along an axis that its tile does not divide is padded, by default with 0. Zeros
leave a sum of elements unchanged, but neither a maximum of negative numbers nor a sum of
exponentials.
`padded_reductions` finds every reduction, and every matrix product, along an axis whose padding is
not known to be neutral there (`analysis.padding_lanes`). A mean counts the elements of its tile:
padding of any value makes its divisor too large. The launch decides whether an axis has padding,
and only then is a warning raised.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from tilewright.analysis.padding_facts import CutAxis, Lane, Lanes
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
    """A reduction along an axis of a tensor whose padding is not neutral."""

    location: Location
    extent: Extent
    tile: int
    is_first: bool  # only the first tile is read
    became: str  # the padding in the reduced tile; empty if unknown
    padding: str  # neutral padding, as an argument of `partition`; empty if there is none
    is_counted: bool = False  # by the divisor of a mean
    step: int | None = None  # between the starts of windows; None: tiles are adjacent
    visited: LaunchTerm | None = None  # how many windows are read; None: the first alone

    def is_noticed(self, environment: Mapping[LaunchTerm, int]) -> bool:
        """Whether a launch with these numbers has padding there."""
        extent = environment[self.extent]
        if self.visited is not None and self.step is not None:
            count = environment[self.visited]
            return count > 0 and (count - 1) * self.step + self.tile > extent
        return 0 < extent < self.tile if self.is_first else extent % self.tile != 0

    def as_python(self, text_of: Callable[[LaunchTerm], str]) -> str:
        """The condition that a launch has no padding there, as Python text over its extent."""
        extent = text_of(self.extent)
        if self.visited is not None:
            count = f"({text_of(self.visited)})"
            return f"{count} < 1 or ({count} - 1) * {self.step} + {self.tile} <= {extent}"
        return (
            f"not 0 < {extent} < {self.tile}" if self.is_first else f"{extent} % {self.tile} == 0"
        )

    def describe(self, environment: Mapping[LaunchTerm, int]) -> str:
        """The effect, the reason and the way out, for a warning."""
        name, axis, number = self.extent.param, self.extent.axis, environment[self.extent]
        beyond = f"which tiles of {self.tile} do not divide"
        if self.step == self.tile:
            beyond = f"beyond which tiles of {self.tile} reach"
        elif self.step is not None:
            beyond = f"beyond which a window of {self.tile}, one every {self.step}, reaches"
        happens = self._what_happens()
        return f"axis {axis} of `{name}` has {number} elements, {beyond}, and {happens}"

    def _what_happens(self) -> str:
        if self.is_counted:
            count = f"{self.extent.param}.shape[{self.extent.axis}].astype(t.dtype)"
            return (
                "tw.mean divides by the number of elements of the tile, padding included: divide "
                f"the sum by the number of those that count, as `tw.sum(t) / {count}` does"
            )
        load = f"load with `padding={self.padding}`, or mask" if self.padding else "mask"
        value = self.became or "the value computed from the padding"
        return f"{value} takes part in this reduction: {load} the elements outside with tw.where"


def padded_reductions(function: Function) -> tuple[PaddedReduction, ...]:
    """Every reduction of a function with padding that is not neutral; loads are the front end's."""
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
    """Padding in the divisor of a mean: a mask changes its sum and not its divisor."""
    for origin, lane in lanes.get(op.source, Lanes()).by_origin.items():
        if lane.axis in op.dims:
            note = _note(location, origin, lane, "")
            yield replace(note, is_counted=True)


def _noticing(
    op: Reduce | Scan, location: Location, lanes: Mapping[Value, Lanes]
) -> Iterator[PaddedReduction]:
    if isinstance(op, Scan) and not op.reverse:
        return  # padding follows all elements of a scan, and is combined with none
    found: dict[CutAxis, tuple[Lane, str]] = {}
    neutral: set[CutAxis] = set()  # one of several tiles that are reduced together decides
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
    """The summed axes of a product: the last of one side and the last but one of the other."""
    assert isinstance(op.lhs.type, TileType)
    rank = len(op.lhs.type.shape)
    for side, axis, other in ((op.lhs, rank - 1, op.rhs), (op.rhs, rank - 2, op.lhs)):
        for origin, lane in _along(lanes, side, axis):
            if lane.value != 0 and lanes.get(other, Lanes()).at(origin) != 0:
                yield _note(location, origin, lane, "")


def _along(
    lanes: Mapping[Value, Lanes], value: Value, axis: int
) -> Iterator[tuple[CutAxis, Lane]]:  # fmt: skip
    known = lanes.get(value)
    for origin, lane in () if known is None else known.by_origin.items():
        if lane.axis == axis and not lane.is_masked:
            yield origin, lane


def _note(location: Location, origin: CutAxis, lane: Lane, padding: str) -> PaddedReduction:
    became = "" if lane.value is None else f"the {lane.value:g} that its padding has become"
    if lane.as_loaded and lane.value is not None:
        became = f"the {lane.value:g} that the last tile is padded with"
    return PaddedReduction(
        location, origin.extent, origin.tile, lane.is_first, became, padding,
        step=origin.step, visited=origin.visited,
    )  # fmt: skip


def _as_padding(identity: FloatIdentity | IntIdentity) -> str:
    if isinstance(identity, FloatIdentity) and math.isinf(identity.value):
        return f"{identity.value}"
    return ""
