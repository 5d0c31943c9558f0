"""`for at in z.indices…()`: walks of outputs, which mint indices.

`check.walks` decides which ranges are allowed; here they only have to be pairs of integers. Any
integers are valid: a walk cuts its range to the grid.
"""

from __future__ import annotations

import ast

from tilewright.check.errors.syntax import BadCall
from tilewright.check.errors.types import IndexCount
from tilewright.check.errors.walks import BadRange, UnequalPartners
from tilewright.dtypes import bool_, i32, limits
from tilewright.frontend.calling.arguments import Arguments, Place
from tilewright.frontend.control.carrying import LoopShape, run_loop
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.memory.tensors import tile_count
from tilewright.frontend.operands.operands import (
    MappedOperand,
    Minted,
    Operand,
    Static,
    TileOperand,
    TupleOperand,
    WalkRange,
)
from tilewright.frontend.operands.tiles import convert, signedness
from tilewright.ir.attributes import Predicate
from tilewright.ir.op import Block, Value
from tilewright.ir.ops.elementwise import CmpI, MaxI, MinI
from tilewright.ir.ops.internal import Require, Walk

__all__ = ["indices", "indices_with", "indices_within", "walk_loop"]

Ranges = dict[int, tuple[Value, Value]]


# --- the range of a walk --------------------------------------------------------------------------


def indices(lo: Lowering, output: MappedOperand, call: Arguments) -> Operand:
    """`z.indices()`: all tiles."""
    return WalkRange((output,), {}, lo.span(call.node))


def indices_within(lo: Lowering, output: MappedOperand, call: Arguments) -> Operand:
    """`z.indices_within((start, stop), None)`: the tiles of a range along some axes."""
    return WalkRange(
        (output,), _ranges(lo, output, call, call.places("ranges")), lo.span(call.node)
    )


def indices_with(lo: Lowering, output: MappedOperand, call: Arguments) -> Operand:
    """`z.indices_with(y, within=…)`: one walk of several outputs."""
    outputs = [output]
    for where, operand in call.places("others"):
        if not isinstance(operand, MappedOperand) or operand in outputs:
            reason = f"it takes other outputs that are walked (Mapped); this is {operand}"
            if operand in outputs:
                reason = f"{operand} has its part in this walk already"
            lo.reject(BadCall, where, f"{output.name}.indices_with", reason)
        _check_partner(lo, where, output, operand)
        outputs.append(operand)
    if len(outputs) == 1:
        way_out = f"`{output.name}.indices()` walks one output"
        lo.reject(
            BadCall, call.node, f"{output.name}.indices_with", "it names no other output", way_out
        )
    ranges: Ranges = {}
    if call.operand("within") != Static(None):
        where, within = call.where("within"), call.operand("within")
        if not isinstance(within, TupleOperand):
            lo.reject(BadRange, where, output.name, f"`within` is a tuple of them, not {within}")
        ranges = _ranges(lo, output, call, tuple((where, item) for item in within.items))
    return WalkRange(tuple(outputs), ranges, lo.span(call.node))


def _check_partner(
    lo: Lowering, where: ast.AST, output: MappedOperand, partner: MappedOperand
) -> None:
    """Check that outputs of one walk are cut into the same grid and walked in the same order."""
    names = output.name, partner.name
    if output.tile != partner.tile:
        reason = f"their tiles are {output.tile} and {partner.tile}"
        lo.reject(UnequalPartners, where, *names, reason, "cut both into tiles of one shape")
    if output.spec.group != partner.spec.group:
        groups = " and ".join(_group_text(each.spec.group) for each in (output, partner))
        reason = f"they are walked in groups of {groups}"
        way_out = "launch both with the same `.persistent(group=…)`"
        lo.reject(UnequalPartners, where, *names, reason, way_out)
    if output.spec.order != partner.spec.order:
        reason = f"they are walked in the orders {output.spec.order} and {partner.spec.order}"
        lo.reject(UnequalPartners, where, *names, reason, "cut both with the same `order=`")
    for axis, extent in enumerate(output.tile):
        if extent is None:  # a whole axis has a single step
            continue
        own, other = (tile_count(lo, each, axis, extent) for each in (output, partner))
        same = CmpI(lhs=own, rhs=other, comparison_predicate=Predicate.EQUAL)
        counts = " == ".join(f"ceil({name}.shape[{axis}] / {extent})" for name in names)
        text = f"{counts}, since they share a walk"
        lo.builder.add(Require(condition=lo.builder.add(same).result, text=text))


def _group_text(group: tuple[int, int] | None) -> str:
    return "no given size" if group is None else str(group)


def _ranges(
    lo: Lowering, output: MappedOperand, call: Arguments, places: tuple[Place, ...]
) -> Ranges:
    if len(places) != output.rank:
        nouns = ("range", "ranges")
        lo.reject(IndexCount, call.node, f"`{output.name}`", output.rank, len(places), nouns)
    return {
        axis: _range(lo, output, place)
        for axis, place in enumerate(places)
        if place[1] != Static(None)
    }


def _range(lo: Lowering, output: MappedOperand, place: Place) -> tuple[Value, Value]:
    where, operand = place
    if not isinstance(operand, TupleOperand) or len(operand.items) != 2:
        lo.reject(BadRange, where, output.name, f"this is {operand}")
    start, stop = (_end(lo, where, output, item) for item in operand.items)
    return start, stop


def _end(lo: Lowering, where: ast.AST, output: MappedOperand, operand: Operand) -> Value:
    """An end of a range as an i32: numbers beyond are outside every grid."""
    low, high = (int(limit) for limit in limits(i32))
    if isinstance(operand, Static) and type(operand.value) is int:
        return lo.builder.index(min(max(operand.value, low), high))
    if not isinstance(operand, TileOperand) or not _is_integer(operand):
        lo.reject(BadRange, where, output.name, f"one of its ends is {operand}")
    dtype, element, sign = operand.dtype, operand.dtype.element, signedness(operand.dtype)
    if dtype is i32 or element.bits < i32.element.bits:
        return convert(lo, operand, i32).value
    value = operand.value
    if dtype.signed:
        least = lo.builder.constant(low, element)
        value = lo.builder.add(MaxI(lhs=value, rhs=least, signedness=sign, dtype=dtype)).result
    most = lo.builder.constant(high, element)
    value = lo.builder.add(MinI(lhs=value, rhs=most, signedness=sign, dtype=dtype)).result
    return convert(lo, TileOperand(value, dtype), i32).value


def _is_integer(tile: TileOperand) -> bool:
    return not tile.shape and tile.dtype.element.is_integer and tile.dtype is not bool_


# --- the loop -------------------------------------------------------------------------------------


def walk_loop(lo: Lowering, node: ast.For, source: WalkRange) -> None:
    """Lower the loop over this block's share of its outputs."""
    output = source.outputs[0]
    names = tuple(each.name for each in source.outputs)
    axes = _walked_axes(output, source)
    minted: list[Minted] = []

    def enter(block: Block) -> Operand:
        places = [lo.builder.index(0) for _ in range(output.rank)]
        for axis, place in zip(axes, block.args, strict=False):
            places[axis] = place
        index = Minted(names, tuple(TileOperand(place, i32) for place in places), source.span)
        minted.append(index)
        return index

    def leave(inits: tuple[Value, ...], block: Block) -> tuple[Value, ...]:
        for axis, place in zip(axes, block.args, strict=False):
            place.hint = place.hint or f"{ast.unparse(node.target)}[{axis}]"
        op = Walk(
            counts=tuple(_steps_along(lo, output, axis) for axis in axes), init_values=inits,
            ranged=tuple(axes.index(axis) for axis in source.ranges),
            starts=tuple(start for start, _ in source.ranges.values()),
            stops=tuple(stop for _, stop in source.ranges.values()),
            group=output.spec.group if set(_last_two(output)) <= set(axes) else (1, 1),
            order=_order(output, axes),
            outputs=names, body=block,
        )  # fmt: skip
        with lo.at(node.iter):
            return lo.builder.add(op).result_values

    try:
        run_loop(lo, node, LoopShape((i32,) * len(axes), enter, leave))
    finally:
        for index in minted:
            index.open = False


def _walked_axes(output: MappedOperand, source: WalkRange) -> list[int]:
    """The axes along which there may be more or fewer steps than one."""
    return [axis for axis, n in enumerate(output.tile) if n is not None or axis in source.ranges]


def _last_two(output: MappedOperand) -> range:
    """The axes of a group."""
    return range(max(output.rank - 2, 0), output.rank)


def _order(output: MappedOperand, axes: list[int]) -> tuple[int, ...]:
    """The order of the walked axes among themselves; empty for the order of the axes."""
    order = tuple(
        axes.index(axis) if axis >= 0 else ~axes.index(~axis)
        for axis in output.spec.order
        if max(axis, ~axis) in axes
    )
    return () if order == tuple(range(len(axes))) else order


def _steps_along(lo: Lowering, output: MappedOperand, axis: int) -> Value:
    extent = output.tile[axis]
    return lo.builder.index(1) if extent is None else tile_count(lo, output, axis, extent)
