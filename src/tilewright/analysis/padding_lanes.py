"""Dataflow of padding: the elements of tiles outside a tensor, from loads to reductions.

A load pads the elements outside its tensor with a number. The number stays known as long as it
meets numbers: `exp` makes 1 of 0, a product with anything keeps 0, `tw.where` with a mask of
positions takes the side that is a number. Where padding meets data its value is unknown, and after
an op that moves elements in an untracked way so is its place.

The analysis repeats until a fixed point; block arguments and results of branches and loops are the
join of all incoming values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

from tilewright.analysis.dataflow import Dataflow
from tilewright.analysis.loaded_axes import LoadedAxes
from tilewright.analysis.padding_facts import (
    NOTHING,
    Lane,
    Lanes,
    PaddedPlace,
    Reach,
    ReachBound,
    Side,
    joined,
    merged,
)
from tilewright.analysis.padding_numbers import Number, folded, folded_product, is_identity
from tilewright.analysis.variation import Variation, outer_axes, shape_of, spread_axes
from tilewright.dtypes import Element
from tilewright.ir.function import Function
from tilewright.ir.op import Block, Op, Value
from tilewright.ir.ops.control import Break, Continue, For, If, Loop, Yield
from tilewright.ir.ops.elementwise import (
    AndI,
    Bitcast,
    Fma,
    FPowI,
    OrI,
    Pow,
    Select,
    ShLI,
    ShRI,
    XOrI,
)
from tilewright.ir.ops.families import Binary, ComparisonOp, Conversion, Unary
from tilewright.ir.ops.internal import (
    Averaged,
    DivisorCheck,
    FloorDiv,
    FloorMod,
    ReadAs,
    Sorted,
    Walk,
)
from tilewright.ir.ops.memory import LoadPtr, LoadView, Offset
from tilewright.ir.ops.reduction import MmaF, MmaFScaled, MmaI, Reduce, Scan
from tilewright.ir.ops.shape import (
    Broadcast,
    Cat,
    Constant,
    Extract,
    Pack,
    Permute,
    Reshape,
    Unpack,
)
from tilewright.ir.rewrite import Definition, definitions
from tilewright.ir.types import Padding, PartitionViewType, StridedViewType, TileType

__all__ = ["PaddingLanes", "met_bounds", "padding_lanes"]

_MOST_ROUNDS = 12  # a value that still changes after so many passes stays as it is


_Rule = Callable[["PaddingLanes", Any], None]


def padding_lanes(function: Function, flow: Dataflow) -> PaddingLanes:
    """The padding of every tile of a function, whose loads are as the front end made them."""
    walker = PaddingLanes(definitions(function), flow)
    for _ in range(_MOST_ROUNDS):
        walker.has_changed = False
        walker.block(function.body)
        if not walker.has_changed:
            break
    return walker


class PaddingLanes:
    """The padding of the tiles of a function, and the state of the iteration that finds it."""

    def __init__(self, made: Mapping[Value, Definition], flow: Dataflow) -> None:
        self.has_changed = False
        self.axes = LoadedAxes(made, flow, Variation())
        self._found: dict[Value, Lanes] = {}
        self._loops: list[tuple[tuple[Value, ...], tuple[Value, ...]]] = []

    def of(self, value: Value) -> Lanes:
        """The current facts of a value."""
        return self._found.get(value, NOTHING)

    def has_mask(self, condition: Value, place: PaddedPlace) -> bool:
        """Whether a condition of positions tells the padding apart: it is trusted to be right.

        One that does not differ by position along the axis of the padding is no mask of it.
        """
        is_known = self.of(condition).at(place) is not None
        return not is_known and bool(place.axes & self.axes.variation.of(condition).placed)

    def block(self, block: Block) -> None:
        """Visit the ops of a block in order."""
        for op in block.ops:
            rule = next((_RULES[kind] for kind in type(op).__mro__ if kind in _RULES), _other)
            if not op.regions:
                self.axes.variation.visit(op)
            rule(self, op)

    def put(self, value: Value, lanes: Lanes) -> None:
        """Record the facts of a result."""
        if lanes != self.of(value):
            self._found[value] = lanes
            self.has_changed = True

    def join(self, value: Value, given: Value) -> None:
        """Join an incoming value into another."""
        if value not in self._found:
            self.put(value, self.of(given))
        else:
            self.put(value, joined(self.of(value), self.of(given)))

    def loop(self, op: For | Loop | Walk) -> None:
        """A loop: its carried values join the initial ones and those of every iteration."""
        carried = op.body.args[len(op.body.args) - len(op.init_values) :]
        for argument, given in zip(carried, op.init_values, strict=True):
            self.join(argument, given)
            if self.of(argument) == NOTHING:
                self.put(argument, Lanes(is_carried=True))
        if not isinstance(op, Loop):
            for result, given in zip(op.result_values, op.init_values, strict=True):
                self.join(result, given)
        self._loops.append((carried, op.result_values))
        self.block(op.body)
        self._loops.pop()
        if not isinstance(op, Loop):
            for result, argument in zip(op.result_values, carried, strict=True):
                self.join(result, argument)

    def leave(self, op: Break | Continue) -> None:
        """The end of an iteration, or of the loop."""
        if self._loops:
            carried, results = self._loops[-1]
            targets = results if isinstance(op, Break) else carried
            for target, given in zip(targets, op.values, strict=False):
                self.join(target, given)

    def branch(self, op: If) -> None:
        """A branch: its results join both arms."""
        for arm in (op.then_body, op.else_body):
            self.block(arm)
            last = arm.ops[-1] if arm.ops else None
            if isinstance(last, Yield):
                for result, given in zip(op.result_values, last.values, strict=True):
                    self.join(result, given)


# --- ops ------------------------------------------------------------------------------------------


def _constant(walker: PaddingLanes, op: Constant) -> None:
    if isinstance(op.value, (int, float)):
        is_truth = isinstance(op.to, TileType) and op.to.element is Element.I1
        walker.put(op.result, Lanes(int(op.value) & 1 if is_truth else op.value))


def _load(walker: PaddingLanes, op: LoadView) -> None:
    type_ = op.view.type
    if isinstance(type_, PartitionViewType | StridedViewType) and type_.padding is not None:
        walker.put(op.tile, Lanes(None, _loaded(walker, op, _PADDINGS[type_.padding])))
    elif op.inbounds and all(op.inbounds):  # a whole tile, alone or beside a partial one
        walker.put(op.tile, Lanes(is_carried=True))


def _loaded(
    walker: PaddingLanes, op: LoadView | LoadPtr, number: Number | None
) -> dict[PaddedPlace, Lane]:  # fmt: skip
    lane = Lane(number, walker.axes.premises(op))
    return {PaddedPlace(reach, axes): lane for axes, reach in walker.axes.of(op)}


def _gather(walker: PaddingLanes, op: LoadPtr) -> None:
    """Elements behind the mask are padding; at a place that is itself padding lies any element."""
    number = None if op.padding_value is None else walker.of(op.padding_value).uniform
    found = _loaded(walker, op, number)
    mask = NOTHING if op.mask is None else walker.of(op.mask)
    for place, lane in chain(walker.of(op.source).by_place.items(), mask.by_place.items()):
        if place not in found:
            is_mask = op.mask is not None and walker.has_mask(op.mask, place)
            value = number if is_mask or mask.at(place) == 0 else None
            found[place] = replace(lane, value=value, as_loaded=False, is_chosen=is_mask)
    walker.put(op.result, Lanes(None, found))


_PADDINGS: dict[Padding, Number] = {
    Padding.ZERO: 0,
    Padding.NEG_ZERO: -0.0,
    Padding.NAN: math.nan,
    Padding.POS_INF: math.inf,
    Padding.NEG_INF: -math.inf,
}


def _elementwise(walker: PaddingLanes, op: Op) -> None:
    walker.put(op.results[0], _combined(walker, op))


def _combined(walker: PaddingLanes, op: Op) -> Lanes:
    given = [walker.of(value) for value in op.operands]
    found: dict[PaddedPlace, Lane] = {}
    for place in dict.fromkeys(chain.from_iterable(lanes.by_place for lanes in given)):
        lanes = [lane for each in given if (lane := each.by_place.get(place)) is not None]
        value = _value_at(op, given, place)
        found[place] = replace(
            merged(lanes, value),
            as_loaded=_keeps(op) and all(lane.as_loaded for lane in lanes),
            is_chosen=_stays_chosen(walker, op, place, value),
        )
    uniform = None
    if not found and given and all(each.uniform is not None for each in given):
        uniform = folded(op, [each.uniform for each in given])
    is_carried = uniform is None and any(each.is_carried for each in given)
    return Lanes(uniform, found, is_carried)


def _stays_chosen(walker: PaddingLanes, op: Op, place: PaddedPlace, value: Number | None) -> bool:
    """Whether the number that a mask has chosen is still in the place of padding.

    It stays as it is, is compared, or is coded in bits, and so is infinity, which is no datum; it
    may meet positions. Arithmetic, and data, make another number of it.
    """
    lanes = {one: lane for one in op.operands if (lane := walker.of(one).by_place.get(place))}
    if isinstance(op, _CODED) and any(
        lane.is_chosen or _is_endless(lane) for lane in lanes.values()
    ):
        return True
    chosen = [lane for lane in lanes.values() if lane.is_chosen]
    if any(lane.value is value or lane.value == value for lane in chosen):
        return True
    others = [one for one in op.operands if one not in lanes and walker.of(one).uniform is None]
    is_read = any(walker.axes.variation.of(one).is_read for one in others)
    return bool(chosen) and value is None and not is_read


def _is_endless(lane: Lane) -> bool:
    return lane.value is not None and math.isinf(lane.value)


_CODED = (ComparisonOp, Bitcast, AndI, OrI, XOrI, ShLI, ShRI)


def _value_at(op: Op, given: list[Lanes], place: PaddedPlace) -> Number | None:
    """The padding of a place in an op's result; it counts as it is beside accumulated tiles."""
    numbers = [each.at(place) for each in given]
    is_apart = [
        (each.is_carried and place not in each.by_place) or _has_other_part(each, place)
        for each in given
    ]
    if isinstance(op, Fma) and any(is_apart):
        return numbers[2] if any(is_apart[:2]) else folded_product(numbers[0], numbers[1])
    others = [number for number, apart in zip(numbers, is_apart, strict=True) if not apart]
    return others[0] if isinstance(op, Binary) and len(others) == 1 else folded(op, numbers)


def _has_other_part(lanes: Lanes, place: PaddedPlace) -> bool:
    """Whether a tile is another part of the same axis, so that both are accumulated."""
    subject = (place.reach.param, place.reach.axis, place.axes)
    return place not in lanes.by_place and any(
        (reach.param, reach.axis, axes) == subject for reach, axes in lanes.by_place
    )


def _select(walker: PaddingLanes, op: Select) -> None:
    """A mask of positions is meant to replace the padding by the side without it."""
    combined, condition = _combined(walker, op), walker.of(op.cond)
    sides = [walker.of(value) for value in (op.val_if_true, op.val_if_false)]
    found = dict(combined.by_place)
    for place, lane in combined.by_place.items():
        known = condition.at(place)
        if walker.has_mask(op.cond, place):
            numbers = [side.uniform for side in sides if place not in side.by_place]
            numbers += [n for side in sides if (n := side.at(place)) is not None]
            value = numbers[0] if numbers else None
            found[place] = replace(lane, value=value, as_loaded=False, is_chosen=True)
            continue
        is_taken = known is not None and place not in sides[0 if known else 1].by_place
        if is_taken and lane.value is None:
            del found[place]  # the side that is taken there is data
    walker.put(op.result, Lanes(combined.uniform, found))


def _keeps(op: Op) -> bool:
    """Whether padding keeps its loaded value: at most converted, or NaN replaced."""
    return isinstance(op, (Conversion, ReadAs, DivisorCheck, Select))


def _reshape(walker: PaddingLanes, op: Reshape) -> None:
    """Padding lies along every axis that takes elements of its own."""
    before, after = shape_of(op.source), shape_of(op.result)
    moves, outer = spread_axes(before, after), outer_axes(before, after)
    source = walker.of(op.source)
    kept = {
        place: replace(lane, is_ordered=lane.is_ordered and place.axes <= outer)
        for place, lane in source.by_place.items()
    }
    moved = replace(source, by_place=kept).moved(lambda axis: moves.get(axis, ()))
    walker.put(op.result, moved)


def _broadcast(walker: PaddingLanes, op: Broadcast) -> None:
    walker.put(op.result, replace(walker.of(op.source), is_carried=False))


def _permute(walker: PaddingLanes, op: Permute) -> None:
    places = {old: (new,) for new, old in enumerate(op.permutation)}
    walker.put(op.result, walker.of(op.source).moved(lambda axis: places[axis]))


def _part(walker: PaddingLanes, op: Extract) -> None:
    """One of the equal parts of a tile: of padding in order, it has what lies in that part."""
    before, after = shape_of(op.source), shape_of(op.result)
    found: dict[PaddedPlace, Lane] = {}
    for (reach, axes), lane in walker.of(op.source).by_place.items():
        part, left = reach, frozenset(axis for axis in axes if after[axis] > 1)
        if len(axes) == 1 and lane.is_ordered:
            (axis,) = axes
            number = walker.of(op.indices[axis]).uniform
            if number is not None and reach.size == before[axis]:
                part = reach.part(after[axis], before[axis] // after[axis], int(number))
        if left:
            found[PaddedPlace(part, left)] = lane
    walker.put(op.result, Lanes(walker.of(op.source).uniform, found))


def _cat(walker: PaddingLanes, op: Cat) -> None:
    """The padding of both tiles, in no order along the axis where they meet."""
    combined = joined(walker.of(op.lhs), walker.of(op.rhs))
    found = {
        place: replace(lane, is_ordered=lane.is_ordered and op.dim not in place.axes)
        for place, lane in combined.by_place.items()
    }
    walker.put(op.result, replace(combined, by_place=found))


def _packed(walker: PaddingLanes, op: Pack | Unpack) -> None:
    """Bytes that are zero are numbers that are zero; any others are not followed."""
    found = {
        place: replace(lane, value=0 if lane.value == 0 else None, as_loaded=False)
        for place, lane in walker.of(op.source).by_place.items()
    }
    walker.put(op.result, Lanes(None, found))


def _reduce(walker: PaddingLanes, op: Reduce | Scan) -> None:
    for source, identity, total in zip(op.sources, op.identities, op.totals, strict=True):
        found: dict[PaddedPlace, Lane] = {}
        for place, lane in walker.of(source).by_place.items():
            is_neutral = is_identity(lane.value, identity)
            left = _left(op, place, lane, is_known=is_neutral or lane.is_chosen)
            if left.axes and left.reach.bounds:
                found[left] = _total(op, place, lane, is_neutral=is_neutral)
        walker.put(total, Lanes(None, found, walker.of(source).is_carried))


def _left(op: Reduce | Scan, place: PaddedPlace, lane: Lane, *, is_known: bool) -> PaddedPlace:
    """The place in a result; a warning tells of padding that is combined and not known to fit."""
    reach, axes = place
    if op.dim in axes and not is_known:
        met = met_bounds(op, reach, lane)
        reach = replace(reach, bounds=tuple(one for one in reach.bounds if one not in met))
    if isinstance(op, Reduce):
        axes = frozenset(axis - (axis > op.dim) for axis in axes if axis != op.dim)
    return PaddedPlace(reach, axes)


def _total(op: Reduce | Scan, place: PaddedPlace, lane: Lane, *, is_neutral: bool) -> Lane:
    """Padding along other axes is combined with itself, and keeps its number if that is neutral."""
    is_along = isinstance(op, Scan) and op.dim in place.axes
    is_same = not is_along and (is_neutral or _is_idempotent(op))
    value = lane.value if is_same else None
    if isinstance(op, Scan) and is_along:
        value = _scanned(op, place.reach, lane)
    return replace(
        lane,
        value=value,
        as_loaded=is_same and lane.as_loaded,
        is_chosen=lane.is_chosen and lane.value == value,
    )


def met_bounds(op: Reduce | Scan, reach: Reach, lane: Lane) -> tuple[ReachBound, ...]:
    """The bounds beyond which padding is combined with elements.

    A scan combines padding behind all elements with none of them, in the order of the scan.
    """
    last = None
    if isinstance(op, Scan) and lane.is_ordered:
        last = Side.FRONT if op.reverse else Side.BEHIND
    return tuple(bound for bound in reach.bounds if bound.side is not last)


def _scanned(op: Scan, reach: Reach, lane: Lane) -> Number | None:
    """Padding behind all elements is combined with their total; at the front with itself."""
    last = Side.FRONT if op.reverse else Side.BEHIND
    sides = {bound.side for bound in reach.bounds}
    if last not in sides and Side.ANYWHERE not in sides and lane.is_ordered:
        return lane.value
    combined = _combination(op) if sides == {last} and lane.is_ordered else None
    return None if combined is None else folded(combined, [None, lane.value])


def _combination(op: Reduce | Scan) -> Op | None:
    """The op that combines, if it is the only one."""
    inner = [each for each in op.body.ops if not isinstance(each, Yield)]
    return inner[0] if len(inner) == 1 and len(inner[0].operands) == 2 else None


def _is_idempotent(op: Reduce | Scan) -> bool:
    combined = _combination(op)
    return combined is not None and combined.mnemonic in _IDEMPOTENT


_IDEMPOTENT = ("maxf", "minf", "maxi", "mini", "andi", "ori")


def _product(walker: PaddingLanes, op: MmaF | MmaI | MmaFScaled) -> None:
    """Zero rows and columns give zeros, to which the accumulator is added."""
    rank = len(shape_of(op.result))
    total = walker.of(op.acc)
    found: dict[PaddedPlace, Lane] = {}
    for side, summed in ((op.lhs, rank - 1), (op.rhs, rank - 2)):
        for (reach, axes), lane in walker.of(side).by_place.items():
            place = PaddedPlace(reach, axes - {summed})
            if place.axes and place not in found:
                value = total.at(place) if lane.value == 0 else None
                found[place] = replace(lane, value=value, as_loaded=False)
    for place, lane in total.by_place.items():
        found.setdefault(place, replace(lane, value=None, as_loaded=False))
    walker.put(op.result, Lanes(None, found))


def _other(walker: PaddingLanes, op: Op) -> None:
    """An op that is not followed: the padding of its operands may lie anywhere in its results."""
    given = [pair for value in op.operands for pair in walker.of(value).by_place.items()]
    for result in () if op.regions or not given else op.results:
        if isinstance(result.type, TileType):
            axes = frozenset(axis for axis, size in enumerate(result.type.shape) if size > 1)
            found = {
                PaddedPlace(reach, axes): Lane(
                    None, lane.premises, as_loaded=False, is_ordered=False
                )
                for (reach, _), lane in given
                if axes
            }
            walker.put(result, Lanes(None, found))


def _sorted(walker: PaddingLanes, op: Sorted) -> None:
    """Padding that comes last is not followed further, and a warning tells of any other."""
    places = walker.of(op.source)
    found = {place: lane for place, lane in places.by_place.items() if op.dim not in place.axes}
    walker.put(op.result, replace(places, by_place=found))


def _kept(walker: PaddingLanes, op: Op) -> None:
    walker.put(op.results[0], walker.of(op.operands[0]))


_RULES: dict[type[Op], _Rule] = {
    Constant: _constant,
    LoadView: _load,
    LoadPtr: _gather,
    **dict.fromkeys((Unary, Binary, ComparisonOp, Conversion, Fma, Pow, FPowI), _elementwise),
    **dict.fromkeys((FloorDiv, FloorMod, ReadAs), _elementwise),
    Select: _select,
    **dict.fromkeys((Averaged, DivisorCheck), _kept),
    Reshape: _reshape,
    Extract: _part,
    Cat: _cat,
    **dict.fromkeys((Pack, Unpack), _packed),
    Sorted: _sorted,
    Offset: _elementwise,
    Broadcast: _broadcast,
    Permute: _permute,
    **dict.fromkeys((Reduce, Scan), _reduce),
    **dict.fromkeys((MmaF, MmaI, MmaFScaled), _product),
    **dict.fromkeys((For, Loop, Walk), PaddingLanes.loop),
    **dict.fromkeys((Break, Continue), PaddingLanes.leave),
    If: PaddingLanes.branch,
}
