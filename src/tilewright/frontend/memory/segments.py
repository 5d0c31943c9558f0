"""Pieces of ragged rows: an output whose first axis is cut by offsets read from memory.

The start of a piece is known only in the kernel, so it is read and written element by element, with
a mask for its rows. Offsets are hidden arguments of the output, without a name in the kernel.
"""

from __future__ import annotations

from tilewright.dtypes import bool_, i32
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.memory.elements import Elements, elements_at
from tilewright.frontend.operands.operands import (
    SegmentedPiece,
    TensorOperand,
    TileOperand,
)
from tilewright.frontend.operands.tiles import broadcast_to, reshaped
from tilewright.ir.attributes import Predicate
from tilewright.ir.op import Value
from tilewright.ir.ops.elementwise import AddI, CmpI, MulI
from tilewright.ir.ops.memory import LoadPtr, StorePtr
from tilewright.ir.ops.shape import Iota
from tilewright.ir.types import TileType

__all__ = ["elements_of_part", "load_elements", "store_elements"]


def load_elements(
    lo: Lowering, tensor: TensorOperand, place: Elements, padding: TileOperand
) -> TileOperand:
    """The elements of a piece, or those of another tensor at the same positions."""
    assert isinstance(place.pointers.type, TileType)
    fill = broadcast_to(lo, padding, place.pointers.type.shape).value
    load = LoadPtr(source=place.pointers, mask=place.inside, padding_value=fill)
    result = lo.builder.add(load).result
    result.dtype = tensor.spec.dtype
    return TileOperand(result, tensor.spec.dtype)


def store_elements(lo: Lowering, place: Elements, tile: TileOperand) -> None:
    """Write the elements of a tile that lie in the piece."""
    lo.builder.add(StorePtr(destination=place.pointers, value=tile.value, mask=place.inside))


def elements_of_part(
    lo: Lowering,
    tensor: TensorOperand,
    piece: SegmentedPiece,
    shape: tuple[int, ...],
    part: tuple[Value, ...],
) -> Elements:
    """The elements of a tensor at the position of a part of a piece, within its rows.

    `part` counts the parts: along the first axis within the piece, along others from the start of
    the tensor.
    """
    begin, end = (TileOperand(row, i32) for row in piece.rows)
    columns = [_counted(lo, place, extent) for place, extent in zip(part, shape, strict=True)]
    rows = _added(lo, begin, columns[0])
    below = CmpI(
        lhs=rows.value,
        rhs=broadcast_to(lo, end, rows.shape).value,
        comparison_predicate=Predicate.LESS_THAN,
    )
    mask = TileOperand(lo.builder.add(below).result, bool_)
    indices = tuple(
        _along(lo, index, a, len(shape)) for a, index in enumerate((rows, *columns[1:]))
    )
    return elements_at(lo, tensor, indices, _along(lo, mask, 0, len(shape)), shape)


def _counted(lo: Lowering, place: Value, extent: int) -> TileOperand:
    """The elements of part number `place` along one axis, counted from the first part."""
    size = lo.builder.index(extent)
    first = lo.builder.add(MulI(lhs=place, rhs=size, dtype=i32)).result
    lanes = lo.builder.add(Iota(to=TileType(i32.element, (extent,)))).result
    return _added(lo, TileOperand(first, i32), TileOperand(lanes, i32))


def _added(lo: Lowering, number: TileOperand, tile: TileOperand) -> TileOperand:
    everywhere = broadcast_to(lo, number, tile.shape).value
    return TileOperand(lo.builder.add(AddI(lhs=everywhere, rhs=tile.value, dtype=i32)).result, i32)


def _along(lo: Lowering, tile: TileOperand, axis: int, rank: int) -> TileOperand:
    """A tile with one axis as one of `rank` axes, the others of extent one."""
    shape = tuple(tile.shape[0] if at == axis else 1 for at in range(rank))
    return reshaped(lo, tile, shape)
