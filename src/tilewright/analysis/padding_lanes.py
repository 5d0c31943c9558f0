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
    Bound,
    Lane,
    Lanes,
    Reach,
    Side,
    joined,
    merged,
)
from tilewright.analysis.padding_numbers import Number, folded, is_identity
from tilewright.analysis.variation import Variation, outer_axes, shape_of, spread_axes
from tilewright.dtypes import Element
from tilewright.ir.function import Function
from tilewright.ir.op import Block, Op, Value
from tilewright.ir.ops.control import Break, Continue, For, If, Loop, Yield
from tilewright.ir.ops.elementwise import Fma, FPowI, Pow, Select
from tilewright.ir.ops.families import Binary, ComparisonOp, Conversion, Unary
from tilewright.ir.ops.internal import (
    Averaged,
    DivisorCheck,
    FloorDiv,
    FloorMod,
    ReadAs,
    Walk,
)
from tilewright.ir.ops.memory import LoadPtr, LoadView, Offset
from tilewright.ir.ops.reduction import MmaF, MmaFScaled, MmaI, Reduce, Scan
from tilewright.ir.ops.shape import Broadcast, Cat, Constant, Extract, Permute, Reshape
from tilewright.ir.rewrite import Definition, definitions
from tilewright.ir.types import Padding, PartitionViewType, StridedViewType, TileType

__all__ = ["met_bounds", "padding_lanes"]

_MOST_ROUNDS = 12  # a value that still changes after so many passes stays as it is


_Rule = Callable[["_Walker", Any], None]


def padding_lanes(function: Function, flow: Dataflow) -> Mapping[Value, Lanes]:
    """The padding of every tile of a function, whose loads are as the front end made them."""
    walker = _Walker(definitions(function), flow)
    for _ in range(_MOST_ROUNDS):
        walker.has_changed = False
        walker.block(function.body)
        if not walker.has_changed:
            break
    return walker.found


class _Walker:
    """The state of the fixed-point iteration over a function."""

    def __init__(self, made: Mapping[Value, Definition], flow: Dataflow) -> None:
        self.found: dict[Value, Lanes] = {}
        self.has_changed = False
        self.variation = Variation()
        self.made = made
        self.axes = LoadedAxes(made, flow, self.variation)
        self._loops: list[tuple[tuple[Value, ...], tuple[Value, ...]]] = []

    def of(self, value: Value) -> Lanes:
        """The current facts of a value."""
        return self.found.get(value, NOTHING)

    def block(self, block: Block) -> None:
        """Visit the ops of a block in order."""
        for op in block.ops:
            rule = next((_RULES[kind] for kind in type(op).__mro__ if kind in _RULES), _other)
            if not op.regions:
                self.variation.visit(op)
            rule(self, op)

    def put(self, value: Value, lanes: Lanes) -> None:
        """Record the facts of a result."""
        if lanes != self.of(value):
            self.found[value] = lanes
            self.has_changed = True

    def join(self, value: Value, given: Value) -> None:
        """Join an incoming value into another."""
        if value not in self.found:
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


def _constant(walker: _Walker, op: Constant) -> None:
    if isinstance(op.value, (int, float)):
        is_truth = isinstance(op.to, TileType) and op.to.element is Element.I1
        walker.put(op.result, Lanes(int(op.value) & 1 if is_truth else op.value))


def _load(walker: _Walker, op: LoadView) -> None:
    type_ = op.view.type
    if isinstance(type_, PartitionViewType | StridedViewType) and type_.padding is not None:
        number, premises = _PADDINGS[type_.padding], walker.axes.premises(op)
        lanes = {reach: Lane(axes, number, premises) for axes, reach in walker.axes.of(op)}
        walker.put(op.tile, Lanes(None, lanes))


def _gather(walker: _Walker, op: LoadPtr) -> None:
    """Elements behind the mask are padding; at a place that is itself padding lies any element."""
    number = None if op.padding_value is None else walker.of(op.padding_value).uniform
    premises = walker.axes.premises(op)
    lanes = {reach: Lane(axes, number, premises) for axes, reach in walker.axes.of(op)}
    mask = NOTHING if op.mask is None else walker.of(op.mask)
    for reach, lane in chain(walker.of(op.source).by_reach.items(), mask.by_reach.items()):
        if reach not in lanes:
            is_mask = op.mask is not None and _is_mask(walker, op.mask, reach, lane)
            value = number if is_mask or mask.at(reach) == 0 else None
            lanes[reach] = replace(lane, value=value, as_loaded=False, is_chosen=is_mask)
    walker.put(op.result, Lanes(None, lanes))


def _is_mask(walker: _Walker, condition: Value, reach: Reach, lane: Lane) -> bool:
    """Whether a condition of positions tells the padding apart: it is trusted to be the right one.

    One that does not differ by position along the axis of the padding is no mask of it.
    """
    is_known = walker.of(condition).at(reach) is not None
    return not is_known and bool(lane.axes & walker.variation.of(condition).placed)


_PADDINGS: dict[Padding, Number] = {
    Padding.ZERO: 0,
    Padding.NEG_ZERO: -0.0,
    Padding.NAN: math.nan,
    Padding.POS_INF: math.inf,
    Padding.NEG_INF: -math.inf,
}


def _elementwise(walker: _Walker, op: Op) -> None:
    walker.put(op.results[0], _combined(walker, op))


def _combined(walker: _Walker, op: Op) -> Lanes:
    given = [walker.of(value) for value in op.operands]
    found: dict[Reach, Lane] = {}
    for reach in dict.fromkeys(chain.from_iterable(lanes.by_reach for lanes in given)):
        lanes = [lane for each in given if (lane := each.by_reach.get(reach)) is not None]
        value = _value_at(op, given, reach)
        is_chosen = any(lane.is_chosen and _is_same(lane.value, value) for lane in lanes)
        lane = replace(merged(lanes, value), is_chosen=is_chosen)
        found[reach] = replace(lane, as_loaded=lane.as_loaded and _keeps(op))
    uniform = None
    if not found and given and all(each.uniform is not None for each in given):
        uniform = folded(op, [each.uniform for each in given])
    is_carried = not found and uniform is None and any(each.is_carried for each in given)
    return Lanes(uniform, found, is_carried)


def _is_same(one: Number | None, other: Number | None) -> bool:
    return one is other or one == other


def _value_at(op: Op, given: list[Lanes], reach: Reach) -> Number | None:
    """The padding of a reach in an op's result.

    Where the padding of one operand lies along another axis than that of a second one, each of them
    meets data of the other.
    """
    lanes = [each.by_reach.get(reach) for each in given]
    found = [
        _number_of(
            op,
            given,
            [
                each.uniform if lane is None else lane.value if lane.axes == axes else None
                for each, lane in zip(given, lanes, strict=True)
            ],
        )
        for axes in {lane.axes for lane in lanes if lane is not None}
    ]
    return found[0] if all(_is_same(value, found[0]) for value in found) else None


def _number_of(op: Op, given: list[Lanes], numbers: list[Number | None]) -> Number | None:
    if isinstance(op, Fma) and (given[0].is_carried or given[1].is_carried):
        return numbers[2]
    others = [n for n, each in zip(numbers, given, strict=True) if not each.is_carried]
    return others[0] if isinstance(op, Binary) and len(others) == 1 else folded(op, numbers)


def _select(walker: _Walker, op: Select) -> None:
    """A mask of positions is meant to replace the padding by the side without it."""
    combined = _combined(walker, op)
    sides = [walker.of(value) for value in (op.val_if_true, op.val_if_false)]
    found = dict(combined.by_reach)
    for reach, lane in combined.by_reach.items():
        if _is_mask(walker, op.cond, reach, lane):
            numbers = [side.uniform for side in sides if reach not in side.by_reach]
            numbers += [n for side in sides if (n := side.at(reach)) is not None]
            value = numbers[0] if numbers else None
            found[reach] = replace(lane, value=value, as_loaded=False, is_chosen=True)
    walker.put(op.result, Lanes(combined.uniform, found))


def _keeps(op: Op) -> bool:
    """Whether padding keeps its loaded value: at most converted, or NaN replaced."""
    return isinstance(op, (Conversion, ReadAs, DivisorCheck, Select))


def _reshape(walker: _Walker, op: Reshape) -> None:
    """Padding lies along every axis that takes elements of its own."""
    before, after = shape_of(op.source), shape_of(op.result)
    moves = spread_axes(before, after)
    moved = walker.of(op.source).moved(lambda axis: moves.get(axis, ()))
    if [size for size in before if size > 1] != [size for size in after if size > 1]:
        ordered = outer_axes(before, after)
        found = {
            reach: replace(lane, is_ordered=lane.is_ordered and old.axes <= ordered)
            for (reach, lane), old in (
                (pair, walker.of(op.source).by_reach[pair[0]]) for pair in moved.by_reach.items()
            )
        }
        moved = replace(moved, by_reach=found)
    walker.put(op.result, moved)


def _broadcast(walker: _Walker, op: Broadcast) -> None:
    walker.put(op.result, replace(walker.of(op.source), is_carried=False))


def _permute(walker: _Walker, op: Permute) -> None:
    places = {old: (new,) for new, old in enumerate(op.permutation)}
    walker.put(op.result, walker.of(op.source).moved(lambda axis: places[axis]))


def _part(walker: _Walker, op: Extract) -> None:
    """One of the equal parts of a tile: of padding in order, it has what lies in that part."""
    before, after = shape_of(op.source), shape_of(op.result)
    found: dict[Reach, Lane] = {}
    for reach, lane in walker.of(op.source).by_reach.items():
        part = reach
        if len(lane.axes) == 1 and lane.is_ordered:
            (axis,) = lane.axes
            number = walker.of(op.indices[axis]).uniform
            if number is not None and reach.size == before[axis]:
                parts = before[axis] // after[axis]
                part = reach.part(after[axis], parts, int(number))
        axes = [axis for axis in lane.axes if after[axis] > 1]
        if axes:
            found[part] = lane.along(axes)
    walker.put(op.result, Lanes(walker.of(op.source).uniform, found))


def _cat(walker: _Walker, op: Cat) -> None:
    """The padding of both tiles, in no order along the axis where they meet."""
    combined = joined(walker.of(op.lhs), walker.of(op.rhs))
    found = {
        reach: replace(lane, is_ordered=lane.is_ordered and op.dim not in lane.axes)
        for reach, lane in combined.by_reach.items()
    }
    walker.put(op.result, replace(combined, by_reach=found))


def _reduce(walker: _Walker, op: Reduce | Scan) -> None:
    """Padding along other axes is combined with itself, and keeps its number if that is neutral."""
    for source, identity, total in zip(op.sources, op.identities, op.totals, strict=True):
        found: dict[Reach, Lane] = {}
        for reach, lane in walker.of(source).by_reach.items():
            is_neutral = is_identity(lane.value, identity)
            is_met = op.dim in lane.axes and bool(met_bounds(op, reach, lane))
            if is_met and not is_neutral and not lane.is_chosen:
                continue  # a warning tells of it
            axes = lane.axes
            if isinstance(op, Reduce):
                axes = frozenset(axis - (axis > op.dim) for axis in lane.axes if axis != op.dim)
            if axes:
                is_same = is_neutral or _is_idempotent(op)
                value = lane.value if is_same else None
                if isinstance(op, Scan) and op.dim in lane.axes:
                    value, is_same = _scanned(op, reach, lane), False
                as_loaded = is_same and lane.as_loaded
                found[reach] = replace(lane, axes=axes, value=value, as_loaded=as_loaded)
        walker.put(total, Lanes(None, found))


def met_bounds(op: Reduce | Scan, reach: Reach, lane: Lane) -> tuple[Bound, ...]:
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


def _product(walker: _Walker, op: MmaF | MmaI | MmaFScaled) -> None:
    """Zero rows and columns give zeros, to which the accumulator is added."""
    rank = len(shape_of(op.result))
    total = walker.of(op.acc)
    found: dict[Reach, Lane] = {}
    for side, summed in ((op.lhs, rank - 1), (op.rhs, rank - 2)):
        for reach, lane in walker.of(side).by_reach.items():
            axes = lane.axes - {summed}
            if axes and reach not in found:
                value = total.at(reach) if lane.value == 0 else None
                found[reach] = replace(lane, axes=axes, value=value, as_loaded=False)
    for reach, lane in total.by_reach.items():
        found.setdefault(reach, replace(lane, value=None, as_loaded=False))
    walker.put(op.result, Lanes(None, found))


def _other(walker: _Walker, op: Op) -> None:
    """An op that is not followed: the padding of its operands may lie anywhere in its results."""
    lanes = [lane for value in op.operands for lane in walker.of(value).by_reach.items()]
    if not lanes or op.regions:
        return
    for result in op.results:
        if isinstance(result.type, TileType):
            axes = frozenset(axis for axis, size in enumerate(result.type.shape) if size > 1)
            found = {
                reach: Lane(axes, None, lane.premises, as_loaded=False, is_ordered=False)
                for reach, lane in lanes
                if axes
            }
            walker.put(result, Lanes(None, found))


def _kept(walker: _Walker, op: Op) -> None:
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
    Offset: _elementwise,
    Broadcast: _broadcast,
    Permute: _permute,
    **dict.fromkeys((Reduce, Scan), _reduce),
    **dict.fromkeys((MmaF, MmaI, MmaFScaled), _product),
    **dict.fromkeys((For, Loop, Walk), _Walker.loop),
    **dict.fromkeys((Break, Continue), _Walker.leave),
    If: _Walker.branch,
}
