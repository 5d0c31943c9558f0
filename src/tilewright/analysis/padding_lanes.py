"""Dataflow of padding: the elements of tiles outside a tensor, from loads to reductions.

The last tile along an axis that its tile does not divide is padded with a number. The number stays
known as long as it meets numbers: `exp` makes 1 of 0, a product with anything keeps 0, `tw.where`
with a mask takes the side that is a number. Where padding meets data its value is unknown. Ops that
move elements in an untracked way drop the fact.

The analysis repeats until a fixed point; block arguments and results of branches and loops are the
join of all incoming values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

from tilewright.analysis.loaded_axes import LoadedAxes
from tilewright.analysis.padding_facts import NOTHING, CutAxis, Lane, Lanes, joined
from tilewright.analysis.padding_numbers import Number, folded, is_identity
from tilewright.dtypes import Element
from tilewright.ir.function import Function
from tilewright.ir.op import Block, Op, Value
from tilewright.ir.ops.control import Break, Continue, For, If, Loop, Yield
from tilewright.ir.ops.elementwise import Bitcast, Fma, FPowI, Pow, Select
from tilewright.ir.ops.families import Binary, ComparisonOp, Conversion, Unary
from tilewright.ir.ops.internal import (
    Averaged,
    DivisorCheck,
    FloorDiv,
    FloorMod,
    ReadAs,
    Walk,
)
from tilewright.ir.ops.memory import LoadPtr, LoadView
from tilewright.ir.ops.reduction import MmaF, MmaI, Reduce, Scan
from tilewright.ir.ops.shape import Broadcast, Constant, Permute, Reshape
from tilewright.ir.rewrite import Definition, definitions
from tilewright.ir.types import Padding, PartitionViewType, StridedViewType, TileType

__all__ = ["padding_lanes"]

_MOST_ROUNDS = 12  # a value that still changes after so many passes is dropped


_Rule = Callable[["_Walker", Any], None]


def padding_lanes(function: Function) -> Mapping[Value, Lanes]:
    """The padding of every tile of a function, whose loads are as the front end made them."""
    walker = _Walker(definitions(function))
    for _ in range(_MOST_ROUNDS):
        walker.has_changed = False
        walker.block(function.body)
        if not walker.has_changed:
            return walker.found
    return {}


class _Walker:
    """The state of the fixed-point iteration over a function."""

    def __init__(self, made: Mapping[Value, Definition]) -> None:
        self.found: dict[Value, Lanes] = {}
        self.has_changed = False
        self.axes = LoadedAxes(made)
        self._loops: list[tuple[tuple[Value, ...], tuple[Value, ...]]] = []

    def of(self, value: Value) -> Lanes:
        """The current facts of a value."""
        return self.found.get(value, NOTHING)

    def block(self, block: Block) -> None:
        """Visit the ops of a block in order."""
        for op in block.ops:
            rule = next((_RULES[kind] for kind in type(op).__mro__ if kind in _RULES), None)
            if rule is not None:
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
    if not isinstance(type_, PartitionViewType | StridedViewType) or type_.padding is None:
        return
    number = _PADDINGS[type_.padding]
    lanes: dict[CutAxis, Lane] = {}
    for axis in range(len(type_.tile)):
        origin = walker.axes.of(op, axis)
        if origin is not None:
            is_first = walker.axes.constant_index(op, axis) == 0
            lanes[origin] = Lane(axis, number, is_first=is_first)
    walker.put(op.tile, Lanes(None, lanes))


def _gather(walker: _Walker, op: LoadPtr) -> None:
    if op.padding_value is not None:
        number = walker.of(op.padding_value).uniform
        lanes = {origin: Lane(axis, number) for axis, origin in walker.axes.gathered(op)}
        walker.put(op.result, Lanes(None, lanes))


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
    origins = dict.fromkeys(chain.from_iterable(lanes.by_origin for lanes in given))
    found: dict[CutAxis, Lane] = {}
    for origin in origins:
        lanes = [lane for each in given if (lane := each.by_origin.get(origin)) is not None]
        if len({lane.axis for lane in lanes}) == 1:
            value = _value_at(op, given, origin)
            found[origin] = Lane(
                lanes[0].axis,
                value,
                as_loaded=_keeps(op) and all(lane.as_loaded for lane in lanes),
                is_masked=any(lane.is_masked for lane in lanes),
                is_first=all(lane.is_first for lane in lanes),
            )
    uniform = None
    if not found and all(each.uniform is not None for each in given):
        uniform = folded(op, [each.uniform for each in given])
    is_carried = not found and uniform is None and any(each.is_carried for each in given)
    return Lanes(uniform, found, is_carried)


def _value_at(op: Op, given: list[Lanes], origin: CutAxis) -> Number | None:
    """The padding of an origin in an op's result."""
    numbers = [each.at(origin) for each in given]
    if isinstance(op, Fma) and (given[0].is_carried or given[1].is_carried):
        return numbers[2]
    others = [n for n, each in zip(numbers, given, strict=True) if not each.is_carried]
    return others[0] if isinstance(op, Binary) and len(others) == 1 else folded(op, numbers)


def _select(walker: _Walker, op: Select) -> None:
    """A condition independent of the padding is a mask: the side without padding is meant."""
    combined = _combined(walker, op)
    condition, *sides = (walker.of(value) for value in op.operands)
    found = dict(combined.by_origin)
    for origin, lane in combined.by_origin.items():
        if lane.value is None and not any(origin in side.by_origin for side in sides):
            del found[origin]  # the padding only selects between tiles without padding
            continue
        is_mask = origin not in condition.by_origin and condition.uniform is None
        others = [side for side in sides if origin not in side.by_origin]
        if is_mask and others:
            meant = others[0].uniform
            found[origin] = replace(lane, value=meant, as_loaded=False, is_masked=True)
    walker.put(op.result, Lanes(combined.uniform, found))


def _keeps(op: Op) -> bool:
    """Whether padding keeps its loaded value: at most converted, or NaN replaced."""
    return isinstance(op, (Conversion, ReadAs, DivisorCheck, Select))


def _reshape(walker: _Walker, op: Reshape) -> None:
    """Axes of extent one come and go; any other axis that changes is dropped."""
    before, after = _shape(op.source), _shape(op.result)
    old = [axis for axis, extent in enumerate(before) if extent != 1]
    new = [axis for axis, extent in enumerate(after) if extent != 1]
    is_followed = [before[axis] for axis in old] == [after[axis] for axis in new]
    places = dict(zip(old, new, strict=True)) if is_followed else {}
    walker.put(op.result, walker.of(op.source).moved(places.get))


def _broadcast(walker: _Walker, op: Broadcast) -> None:
    walker.put(op.result, replace(walker.of(op.source), is_carried=False))


def _permute(walker: _Walker, op: Permute) -> None:
    places = {old: new for new, old in enumerate(op.permutation)}
    walker.put(op.result, walker.of(op.source).moved(places.get))


def _shape(value: Value) -> tuple[int, ...]:
    assert isinstance(value.type, TileType)
    return value.type.shape


def _reduce(walker: _Walker, op: Reduce | Scan) -> None:
    """Padding along other axes is combined with itself, and keeps its number if that is neutral."""
    for source, identity, total in zip(op.sources, op.identities, op.totals, strict=True):
        lanes = walker.of(source)
        found: dict[CutAxis, Lane] = {}
        for origin, lane in lanes.by_origin.items():
            if lane.axis == op.dim:
                is_told = (
                    isinstance(op, Scan) and op.reverse and not is_identity(lane.value, identity)
                )
                if isinstance(op, Scan) and not is_told:
                    found[origin] = replace(lane, value=_scanned(op, lane), as_loaded=False)
                continue
            is_same = is_identity(lane.value, identity) or _is_idempotent(op)
            value = lane.value if is_same else None
            is_moved = isinstance(op, Reduce) and lane.axis > op.dim
            found[origin] = replace(
                lane,
                axis=lane.axis - is_moved,
                value=value,
                as_loaded=is_same and lane.as_loaded,
            )
        walker.put(total, Lanes(None, found))


def _scanned(op: Scan, lane: Lane) -> Number | None:
    """Padding behind all elements is combined with their total; at the front with itself."""
    if op.reverse:
        return lane.value
    combined = _combination(op)
    return None if combined is None else folded(combined, [None, lane.value])


def _combination(op: Reduce | Scan) -> Op | None:
    """The op that combines, if it is the only one."""
    inner = [each for each in op.body.ops if not isinstance(each, Yield)]
    return inner[0] if len(inner) == 1 and len(inner[0].operands) == 2 else None


def _is_idempotent(op: Reduce | Scan) -> bool:
    combined = _combination(op)
    return combined is not None and combined.mnemonic in _IDEMPOTENT


_IDEMPOTENT = ("maxf", "minf", "maxi", "mini", "andi", "ori")


def _product(walker: _Walker, op: MmaF | MmaI) -> None:
    """Zero rows and columns give zeros, to which the accumulator is added."""
    rank = len(_shape(op.result))
    total = walker.of(op.acc)
    found: dict[CutAxis, Lane] = {}
    for side, axis in ((op.lhs, rank - 2), (op.rhs, rank - 1)):
        for origin, lane in walker.of(side).by_origin.items():
            if lane.axis == axis and origin not in found:
                value = total.at(origin) if lane.value == 0 else None
                found[origin] = replace(lane, axis=axis, value=value, as_loaded=False)
    for origin, lane in total.by_origin.items():
        found.setdefault(origin, replace(lane, value=None, as_loaded=False))
    walker.put(op.result, Lanes(None, found))


def _not_followed(walker: _Walker, op: Bitcast) -> None:
    walker.put(op.result, NOTHING)  # bits of floats as integers, an order of their own


def _kept(walker: _Walker, op: Op) -> None:
    walker.put(op.results[0], walker.of(op.operands[0]))


_RULES: dict[type[Op], _Rule] = {
    Constant: _constant,
    LoadView: _load,
    LoadPtr: _gather,
    **dict.fromkeys((Unary, Binary, ComparisonOp, Conversion, Fma, Pow, FPowI), _elementwise),
    **dict.fromkeys((FloorDiv, FloorMod, ReadAs), _elementwise),
    Bitcast: _not_followed,
    Select: _select,
    **dict.fromkeys((Averaged, DivisorCheck), _kept),
    Reshape: _reshape,
    Broadcast: _broadcast,
    Permute: _permute,
    **dict.fromkeys((Reduce, Scan), _reduce),
    **dict.fromkeys((MmaF, MmaI), _product),
    **dict.fromkeys((For, Loop, Walk), _Walker.loop),
    **dict.fromkeys((Break, Continue), _Walker.leave),
    If: _Walker.branch,
}
