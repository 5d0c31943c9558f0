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
from collections.abc import Iterator, Mapping
from dataclasses import replace

from tilewright.analysis.padding_facts import CutAxis, Lane, Lanes
from tilewright.analysis.padding_lanes import padding_lanes
from tilewright.analysis.padding_numbers import is_identity
from tilewright.check.padded_reduction import PaddedReduction
from tilewright.ir.attributes import FloatIdentity, IntIdentity
from tilewright.ir.function import Function
from tilewright.ir.op import Op, Value
from tilewright.ir.ops.internal import Averaged
from tilewright.ir.ops.reduction import MmaF, MmaI, Reduce, Scan
from tilewright.ir.types import TileType
from tilewright.source import Location

__all__ = ["padded_reductions"]


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
