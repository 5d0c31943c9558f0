"""Partitions and windows: loads of tiles.

A partition and windows are one concept: tiles that start every so many elements along each axis. If
that step is the tile's own extent, the view is Tile IR's partition view, otherwise its strided
view; in both, the valid tiles are those that begin inside the tensor. Every coordinate goes through
a bounds check, whose axis is the tensor's: a partition may have its axes in another order.
"""

from __future__ import annotations

import ast
from dataclasses import replace

from tilewright.check.errors.syntax import BadCall
from tilewright.check.errors.types import IndexCount, NoSuchAxis, WrongOperand
from tilewright.dtypes import i32
from tilewright.frontend.calling.arguments import Arguments, Place
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.memory.exact import exact_argument, whole_argument, whole_count
from tilewright.frontend.memory.load_hints import load_hints
from tilewright.frontend.memory.shifted_windows import load_shifted, starts_argument
from tilewright.frontend.memory.tensors import (
    checked,
    loaded_from,
    padding_argument,
    tile_argument,
    tile_count,
)
from tilewright.frontend.operands.indices import coordinates, integer_scalar
from tilewright.frontend.operands.operands import (
    Operand,
    PartitionOperand,
    RefOperand,
    Static,
    TileOperand,
)
from tilewright.frontend.operands.tiles import (
    check_tile_shape,
    convert,
    signedness,
    static_int,
    static_ints,
)
from tilewright.frontend.signature.specialization import MAX_EXTENT
from tilewright.ir.attributes import TargetHints
from tilewright.ir.check_sites import CheckSite
from tilewright.ir.op import Value
from tilewright.ir.ops.elementwise import MaxI, MinI, SubI
from tilewright.ir.ops.internal import NotEmpty
from tilewright.ir.types import PartitionViewType, StridedViewType, TensorViewType

__all__ = ["clip", "count_along", "load", "load_at", "partition", "view_of", "windows"]


# --- making ---------------------------------------------------------------------------------------


def partition(lo: Lowering, tensor: RefOperand, call: Arguments) -> Operand:
    """`x.partition(BM, BK, order=…, padding=…, exact=…, whole=…)`."""
    tile = _tile(lo, tensor, call)
    order = _order(lo, tensor, call)
    padding = padding_argument(lo, call, tensor)
    by_axis = tuple(tile[order.index(axis)] for axis in range(tensor.rank))
    is_exact, is_whole = exact_argument(lo, call, tensor, by_axis), whole_argument(lo, call)
    padded = None if is_exact or is_whole else padding
    return PartitionOperand(tensor, tile, tile, order, padded, is_whole=is_whole)


def windows(lo: Lowering, tensor: RefOperand, call: Arguments) -> Operand:
    """`x.windows(18, 18, step=(16, 16), start=…, padding=…)`."""
    tile = _tile(lo, tensor, call)
    axes = tuple(range(tensor.rank))
    steps = _steps(lo, tensor, call)
    starts = starts_argument(lo, tensor, call, tile)
    padding = padding_argument(lo, call, tensor)
    return PartitionOperand(tensor, tile, steps, axes, padding, starts)


def _tile(lo: Lowering, tensor: RefOperand, call: Arguments) -> tuple[int, ...]:
    if not tensor.rank:
        reason = "it has no axes, only one element"
        way_out = f"`{tensor.name}.item()` reads it"
        lo.reject(BadCall, call.node, f"{tensor.name}.partition", reason, way_out)
    tile = tile_argument(lo, call, "tile", tensor.rank, f"`{tensor.name}`")
    way_out = "round it up: loads pad the elements outside"
    check_tile_shape(lo, call.node, tile, f"a tile of `{tensor.name}`", way_out, tensor.spec.dtype)
    return tile


def _order(lo: Lowering, tensor: RefOperand, call: Arguments) -> tuple[int, ...]:
    operand, axes = call.operand("order"), tuple(range(tensor.rank))
    if operand == Static(None):
        return axes
    where = call.where("order")
    order = static_ints(lo, where, operand, "an axis of the order")
    if tuple(sorted(order)) != axes:
        example = ", ".join(map(str, reversed(axes)))
        lo.reject(
            WrongOperand, where, f"an order of {order}",
            f"each axis of `{tensor.name}` stands in it once, 0 to {tensor.rank - 1}",
            f"for example `order=({example})`",
        )  # fmt: skip
    return order


def _steps(lo: Lowering, tensor: RefOperand, call: Arguments) -> tuple[int, ...]:
    where = call.where("step")
    steps = static_ints(lo, where, call.operand("step"), "the step of a window")
    if len(steps) == 1:
        steps *= tensor.rank
    if len(steps) != tensor.rank:
        nouns = ("step", "steps")
        lo.reject(IndexCount, where, f"`{tensor.name}`", tensor.rank, len(steps), nouns)
    if any(step < 1 for step in steps):
        reason = "a window starts at least one element behind the one before"
        lo.reject(WrongOperand, where, f"a step of {min(steps)}", reason)
    if any(step > MAX_EXTENT for step in steps):
        reason = f"steps are counted in 32 bits, as extents are: at most {MAX_EXTENT}"
        way_out = "a step as long as the axis leaves one window"
        lo.reject(WrongOperand, where, f"a step of {max(steps)}", reason, way_out)
    return steps


# --- counting -------------------------------------------------------------------------------------


def count_along(lo: Lowering, source: PartitionOperand, axis: int) -> Value:
    """Number of tiles that begin inside the tensor, or of those that also end inside it."""
    count = whole_count if source.is_whole else tile_count
    return count(lo, source.tensor, source.order[axis], source.steps[axis])


def clip(lo: Lowering, source: PartitionOperand, call: Arguments) -> Operand:
    """`p.clip(i, axis)`: the index clamped to the axis.

    The index is compared in its own width, and only then narrowed. The check of the result is
    proved where the axis is not empty, which the launch checks where it can; in the variant for
    guarded code of an empty axis it reports that no index lies inside.
    """
    where = call.where("index")
    axis = static_int(lo, call.where("axis"), call.operand("axis"), "an axis")
    if not 0 <= axis < source.rank:
        lo.reject(NoSuchAxis, call.where("axis"), str(source), axis, source.rank)
    index = integer_scalar(lo, where, call.operand("index"))
    count = count_along(lo, source, axis)
    _require_some(lo, source, axis, count)
    dtype, sign = index.dtype, signedness(index.dtype)
    add = lo.builder.add
    last = add(SubI(lhs=count, rhs=lo.builder.index(1), dtype=i32)).result
    wide_last = convert(lo, TileOperand(last, i32), dtype).value
    result = add(MinI(lhs=index.value, rhs=wide_last, signedness=sign, dtype=dtype)).result
    if dtype.signed:
        zero = lo.builder.constant(0, dtype.element)
        result = add(MaxI(lhs=result, rhs=zero, signedness=sign, dtype=dtype)).result
    nearest = convert(lo, TileOperand(result, dtype), i32)
    site = replace(_site(source, axis), of_clip=True)
    return TileOperand(checked(lo, (where, nearest), count, site), i32)


def _require_some(lo: Lowering, source: PartitionOperand, axis: int, count: Value) -> None:
    """Require an axis that is not empty, since no index can be clamped to an empty one."""
    name, along = source.tensor.name, source.tensor.along(source.order[axis])
    text = f"{name}.shape[{along}] > 0, since an index is clipped to it"
    lo.builder.add(NotEmpty(count=count, text=text))


# --- loading --------------------------------------------------------------------------------------


def load(lo: Lowering, source: PartitionOperand, call: Arguments) -> Operand:
    """`p.load(i, j, latency=…, allow_tma=…)`."""
    places = coordinates(call.places("index"))
    return load_at(lo, call.node, source, places, load_hints(lo, call))


def load_at(
    lo: Lowering,
    node: ast.AST,
    source: PartitionOperand,
    places: tuple[Place, ...],
    hints: TargetHints | None = None,
) -> Operand:
    """`p[i, j]`, each coordinate checked."""
    if len(places) != source.rank:
        lo.reject(IndexCount, node, str(source), source.rank, len(places))
    index = tuple(
        checked(lo, place, count_along(lo, source, axis), _site(source, axis))
        for axis, place in enumerate(places)
    )
    if any(source.starts):
        return load_shifted(lo, source, index)
    is_whole = source.padding is None
    return loaded_from(lo, view_of(lo, source), source.tensor, index, hints, is_whole=is_whole)


def _site(source: PartitionOperand, axis: int) -> CheckSite:
    tile, step = source.tile[axis], source.steps[axis]
    every = None if step == tile else step
    along = source.tensor.along(source.order[axis])
    return CheckSite(source.tensor.name, along, tile, step=every, is_whole=source.is_whole)


def view_of(lo: Lowering, source: PartitionOperand) -> Value:
    """The tensor as the partition or its windows cut it."""
    tensor, whole = source.tensor, source.tensor.view.type
    assert isinstance(whole, TensorViewType)
    tile, steps = tensor.whole_tile(source.tile), tensor.whole_tile(source.steps)
    order = (*range(len(tensor.leading)), *map(tensor.along, source.order))
    if steps == tile:
        return lo.view(tensor, PartitionViewType(tile, whole, order, source.padding))
    return lo.view(tensor, StridedViewType(tile, steps, whole, order, source.padding))
