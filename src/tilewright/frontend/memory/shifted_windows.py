"""Shifted windows: read element by element, since no view has a start.

Window `k` begins `start` elements after its step, or before it. The valid windows are those of the
same step without a start, so that an index walks the same ladder. An element before the first or
after the last one is masked, and reads as padding: an index that wraps at 32 bits is negative, and
so outside, too.
"""

from __future__ import annotations

import math

from tilewright.check.errors.types import IndexCount, WrongOperand
from tilewright.dtypes import i32
from tilewright.frontend.calling.arguments import Arguments
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.memory.elements import elements_at
from tilewright.frontend.memory.segments import load_elements
from tilewright.frontend.operands.operands import PartitionOperand, RefOperand, TileOperand
from tilewright.frontend.operands.tiles import broadcast_to, constant, reshaped, static_ints
from tilewright.ir.op import Value
from tilewright.ir.ops.elementwise import AddI, MulI
from tilewright.ir.ops.shape import Iota
from tilewright.ir.types import Padding, TileType

__all__ = ["load_shifted", "starts_argument"]

_NUMBERS = {
    Padding.ZERO: 0.0,
    Padding.NEG_ZERO: -0.0,
    Padding.NAN: math.nan,
    Padding.POS_INF: math.inf,
    Padding.NEG_INF: -math.inf,
}


def starts_argument(
    lo: Lowering, tensor: RefOperand, call: Arguments, tile: tuple[int, ...]
) -> tuple[int, ...]:
    """The start of the first window along each axis: less than a window away from the tensor."""
    where = call.where("start")
    starts = static_ints(lo, where, call.operand("start"), "the start of a window")
    if len(starts) == 1:
        starts *= tensor.rank
    if len(starts) != tensor.rank:
        nouns = ("start", "starts")
        lo.reject(IndexCount, where, f"`{tensor.name}`", tensor.rank, len(starts), nouns)
    for start, extent in zip(starts, tile, strict=True):
        if not -extent < start < extent:
            reason = f"a window of {extent} starts less than its extent away from its step"
            way_out = f"a start is between {1 - extent} and {extent - 1}"
            lo.reject(WrongOperand, where, f"a start of {start}", reason, way_out)
    return starts


def load_shifted(lo: Lowering, source: PartitionOperand, index: tuple[Value, ...]) -> TileOperand:
    """The window at a checked index, with padding around the tensor."""
    rank, dtype = source.rank, source.tensor.spec.dtype
    indices = tuple(
        reshaped(lo, _elements(lo, source, axis, place), _along(source.tile, axis))
        for axis, place in enumerate(index)
    )
    elements = elements_at(lo, source.tensor, indices, None, source.tile)
    assert source.padding is not None
    number = _NUMBERS[source.padding]
    fill = constant(lo, lo.frame.node, number if dtype.element.is_float else 0, dtype, (1,) * rank)
    return load_elements(lo, source.tensor, elements, fill)


def _elements(lo: Lowering, source: PartitionOperand, axis: int, place: Value) -> TileOperand:
    """The indices of a window's elements along an axis."""
    add, extent = lo.builder.add, source.tile[axis]
    step = lo.builder.index(source.steps[axis])
    begin = add(MulI(lhs=place, rhs=step, dtype=i32)).result
    begin = add(AddI(lhs=begin, rhs=lo.builder.index(source.starts[axis]), dtype=i32)).result
    lanes = add(Iota(to=TileType(i32.element, (extent,)), dtype=i32)).result
    first = broadcast_to(lo, TileOperand(begin, i32), (extent,)).value
    return TileOperand(add(AddI(lhs=first, rhs=lanes, dtype=i32)).result, i32)


def _along(tile: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return tuple(extent if a == axis else 1 for a, extent in enumerate(tile))
