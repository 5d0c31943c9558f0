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
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from tilewright.analysis.dataflow import Dataflow
from tilewright.analysis.padding_facts import NOTHING, Lane, PaddedPlace, Reach
from tilewright.analysis.padding_lanes import PaddingLanes, met_bounds, padding_lanes
from tilewright.analysis.padding_numbers import is_identity
from tilewright.check.corners import closed
from tilewright.check.padded_reduction import PaddedReduction
from tilewright.dtypes import limits
from tilewright.ir.attributes import AtomicMode, FloatIdentity, IntIdentity
from tilewright.ir.function import Function
from tilewright.ir.op import Op
from tilewright.ir.ops.internal import Averaged, Sorted
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


def _notes(op: Op, lanes: PaddingLanes) -> Iterator[PaddedReduction]:
    find = _FOUND.get(type(op))
    if op.loc is not None and find is not None:
        yield from find(op, op.loc, lanes)


def _counted(op: Averaged, location: Location, lanes: PaddingLanes) -> Iterator[PaddedReduction]:
    """Padding in the divisor of a mean: a mask changes its sum and not its divisor."""
    for (reach, axes), lane in lanes.of(op.source).by_place.items():
        if axes & set(op.dims):
            yield replace(_note(location, reach, lane), is_counted=True)


def _noticing(
    op: Reduce | Scan, location: Location, lanes: PaddingLanes
) -> Iterator[PaddedReduction]:  # fmt: skip
    found: dict[PaddedPlace, tuple[Lane, str]] = {}
    neutral: set[PaddedPlace] = set()  # one of several tiles that are reduced together decides
    for source, identity in zip(op.sources, op.identities, strict=True):
        for place, lane in lanes.of(source).by_place.items():
            if op.dim in place.axes:
                if is_identity(lane.value, identity) or lane.is_chosen:
                    neutral.add(place)
                found.setdefault(place, (lane, _as_padding(identity) if lane.as_loaded else ""))
    for place, (lane, padding) in found.items():
        bounds = met_bounds(op, place.reach, lane)
        if bounds and place not in neutral:
            met = replace(place.reach, bounds=bounds)
            yield replace(_note(location, met, lane), padding=padding)


def _multiplied(
    op: MmaF | MmaI | MmaFScaled, location: Location, lanes: PaddingLanes
) -> Iterator[PaddedReduction]:
    """The summed axes of a product: the last of one side and the last but one of the other."""
    assert isinstance(op.lhs.type, TileType)
    last = len(op.lhs.type.shape) - 1
    for side, axis, other in ((op.lhs, last, op.rhs), (op.rhs, last - 1, op.lhs)):
        across = frozenset((2 * last - 1 - axis,))
        for (reach, axes), lane in lanes.of(side).by_place.items():
            is_neutral = lane.value == 0 or lanes.of(other).at(PaddedPlace(reach, across)) == 0
            if axis in axes and not lane.is_chosen and not is_neutral:
                yield _note(location, reach, lane)


def _accumulated(
    op: AtomicRmw, location: Location, lanes: PaddingLanes
) -> Iterator[PaddedReduction]:  # fmt: skip
    """Elements that are combined into memory: padding is dropped by its mask, or neutral."""
    mask = NOTHING if op.mask is None else lanes.of(op.mask)
    values = lanes.of(op.arg)
    given = [values, lanes.of(op.pointers), mask]
    for place, lane in {p: lane for each in given for p, lane in each.by_place.items()}.items():
        is_masked = mask.at(place) == 0 or (op.mask and lanes.has_mask(op.mask, place))
        is_neutral = values.at(place) == _IDENTITIES.get(op.mode, 0)
        if not is_masked and not is_neutral and not lane.is_chosen:
            yield _note(location, place.reach, replace(lane, value=values.at(place)))


_IDENTITIES = {AtomicMode.MIN: math.inf, AtomicMode.MAX: -math.inf, AtomicMode.AND: -1}


def _sorted(op: Sorted, location: Location, lanes: PaddingLanes) -> Iterator[PaddedReduction]:
    """Padding that does not come last in a sort takes the place of an element."""
    dtype = op.source.dtype
    assert dtype is not None
    last = -math.inf if op.is_descending else math.inf
    if not dtype.element.is_float:
        last = limits(dtype)[0 if op.is_descending else 1]
    for (reach, axes), lane in lanes.of(op.source).by_place.items():
        is_last = lane.value == last or (lane.value != lane.value and not op.is_descending)
        if op.dim in axes and not is_last and not lane.is_chosen:
            padding = f"{last}" if lane.as_loaded and dtype.element.is_float else ""
            note = _note(location, reach, lane)
            yield replace(note, padding=padding, effect="is sorted among the elements")


def _note(location: Location, reach: Reach, lane: Lane) -> PaddedReduction:
    premises = tuple(sorted(lane.premises, key=str))
    bounds = (replace(bound, goal=closed(bound.goal, premises)) for bound in reach.bounds)
    became = "" if lane.value is None else f"the {lane.value:g} that its padding has become"
    if lane.as_loaded and lane.value is not None:
        became = f"the {lane.value:g} that the last tile is padded with"
        if reach.axis is None:
            became = f"the {lane.value:g} that they are padded with"
    return PaddedReduction(
        location, True, premises, tuple(bounds), reach.param, reach.axis, reach.extent, became
    )


def _as_padding(identity: FloatIdentity | IntIdentity) -> str:
    if isinstance(identity, FloatIdentity) and math.isinf(identity.value):
        return f"{identity.value}"
    return ""


_Finder = Callable[[Any, Location, PaddingLanes], Iterator[PaddedReduction]]
_FOUND: dict[type[Op], _Finder] = {
    AtomicRmw: _accumulated,
    Averaged: _counted,
    MmaF: _multiplied,
    MmaFScaled: _multiplied,
    MmaI: _multiplied,
    Reduce: _noticing,
    Scan: _noticing,
    Sorted: _sorted,
}
