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
from dataclasses import replace
from typing import Any

from tilewright.analysis.dataflow import Dataflow
from tilewright.analysis.padding_facts import NOTHING, Bound, Lane, Lanes, Reach
from tilewright.analysis.padding_lanes import met_bounds, padding_lanes
from tilewright.analysis.padding_numbers import is_identity
from tilewright.check.corners import closed
from tilewright.check.padded_reduction import PaddedReduction
from tilewright.ir.attributes import AtomicMode, FloatIdentity, IntIdentity
from tilewright.ir.function import Function
from tilewright.ir.op import Op, Value
from tilewright.ir.ops.internal import Averaged
from tilewright.ir.ops.memory import AtomicRmw
from tilewright.ir.ops.reduction import MmaF, MmaFScaled, MmaI, Reduce, Scan
from tilewright.ir.types import TileType
from tilewright.source import Location

__all__ = ["padded_reductions"]


def padded_reductions(function: Function, flow: Dataflow) -> tuple[PaddedReduction, ...]:
    """Every reduction of a function with padding that is not neutral; loads are the front end's."""
    lanes = padding_lanes(function, flow)
    notes = (note for op in function.walk() for note in _notes(op, lanes))
    return tuple({(note.location, note): note for note in notes}.values())


def _notes(op: Op, lanes: Mapping[Value, Lanes]) -> Iterator[PaddedReduction]:
    if op.loc is None:
        return
    for kind, find in _FOUND.items():
        if isinstance(op, kind):
            yield from find(op, op.loc, lanes)


def _counted(
    op: Averaged, location: Location, lanes: Mapping[Value, Lanes]
) -> Iterator[PaddedReduction]:
    """Padding in the divisor of a mean: a mask changes its sum and not its divisor."""
    for reach, lane in lanes.get(op.source, NOTHING).by_reach.items():
        if lane.axes & set(op.dims):
            note = _note(location, reach.bounds, reach, lane)
            yield replace(note, is_counted=True)


def _noticing(
    op: Reduce | Scan, location: Location, lanes: Mapping[Value, Lanes]
) -> Iterator[PaddedReduction]:
    found: dict[Reach, tuple[Lane, str]] = {}
    neutral: set[Reach] = set()  # one of several tiles that are reduced together decides
    for source, identity in zip(op.sources, op.identities, strict=True):
        for reach, lane in _along(lanes, source, op.dim):
            if is_identity(lane.value, identity):
                neutral.add(reach)
            found.setdefault(reach, (lane, _as_padding(identity) if lane.as_loaded else ""))
    for reach, (lane, way_out) in found.items():
        bounds = met_bounds(op, reach, lane)
        if bounds and reach not in neutral:
            yield _note(location, bounds, reach, lane, way_out)


def _multiplied(
    op: MmaF | MmaI | MmaFScaled, location: Location, lanes: Mapping[Value, Lanes]
) -> Iterator[PaddedReduction]:
    """The summed axes of a product: the last of one side and the last but one of the other."""
    assert isinstance(op.lhs.type, TileType)
    rank = len(op.lhs.type.shape)
    for side, axis, other in ((op.lhs, rank - 1, op.rhs), (op.rhs, rank - 2, op.lhs)):
        for reach, lane in _along(lanes, side, axis):
            if lane.value != 0 and lanes.get(other, NOTHING).at(reach) != 0:
                yield _note(location, reach.bounds, reach, lane)


def _accumulated(
    op: AtomicRmw, location: Location, lanes: Mapping[Value, Lanes]
) -> Iterator[PaddedReduction]:
    """Elements that are combined into memory: padding is dropped by its mask, or neutral."""
    mask = NOTHING if op.mask is None else lanes.get(op.mask, NOTHING)
    values = lanes.get(op.arg, NOTHING)
    given = [values, lanes.get(op.pointers, NOTHING), mask]
    for reach, lane in {r: n for each in given for r, n in each.by_reach.items()}.items():
        is_neutral = values.at(reach) == _IDENTITIES.get(op.mode, 0)
        if mask.at(reach) != 0 and not is_neutral and not lane.is_chosen:
            yield _note(location, reach.bounds, reach, replace(lane, value=values.at(reach)))


_IDENTITIES = {AtomicMode.MIN: math.inf, AtomicMode.MAX: -math.inf, AtomicMode.AND: -1}


def _along(
    lanes: Mapping[Value, Lanes], value: Value, axis: int
) -> Iterator[tuple[Reach, Lane]]:  # fmt: skip
    for reach, lane in lanes.get(value, NOTHING).by_reach.items():
        if axis in lane.axes and not lane.is_chosen:
            yield reach, lane


def _note(
    location: Location, bounds: tuple[Bound, ...], reach: Reach, lane: Lane, padding: str = ""
) -> PaddedReduction:
    premises = tuple(sorted(lane.premises, key=str))
    closer = tuple(replace(bound, goal=closed(bound.goal, premises)) for bound in bounds)
    became = "" if lane.value is None else f"the {lane.value:g} that its padding has become"
    if lane.as_loaded and lane.value is not None:
        became = f"the {lane.value:g} that the last tile is padded with"
        if reach.axis is None:
            became = f"the {lane.value:g} that they are padded with"
    return PaddedReduction(
        location, True, premises, closer, reach.param, reach.axis, reach.extent, became, padding
    )


def _as_padding(identity: FloatIdentity | IntIdentity) -> str:
    if isinstance(identity, FloatIdentity) and math.isinf(identity.value):
        return f"{identity.value}"
    return ""


_FOUND: dict[type[Op], Callable[[Any, Location, Mapping[Value, Lanes]], Iterator[PaddedReduction]]]
_FOUND = {
    Reduce: _noticing,
    Scan: _noticing,
    MmaF: _multiplied,
    MmaFScaled: _multiplied,
    MmaI: _multiplied,
    Averaged: _counted,
    AtomicRmw: _accumulated,
}
