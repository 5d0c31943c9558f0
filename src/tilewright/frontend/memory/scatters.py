"""Scatters: stores to single elements of this block's piece, `z.scatter(values, i, j, mask=…)`.

Indices count from the first element of the piece. An element outside the piece, or outside the
tensor, is dropped without a check, so no index reaches an element of another block. Of several
values for one element, only the last in row-major order is written: with several stores to one
address the result would be undefined.
"""

from __future__ import annotations

import ast
from math import prod

from tilewright.check.errors.types import IndexCount, WrongStoreDType
from tilewright.dtypes import bool_, i32
from tilewright.frontend.builtins.reductions import ANY, reduced_truth
from tilewright.frontend.calling.arguments import Arguments
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.memory.elements import elements_at, mask_tile
from tilewright.frontend.memory.segments import store_elements
from tilewright.frontend.memory.tensors import extent_of
from tilewright.frontend.operands.indices import integer_tile
from tilewright.frontend.operands.operands import (
    Operand,
    PieceOperand,
    SegmentedPiece,
    Static,
    TileOperand,
)
from tilewright.frontend.operands.tile_formulas import TileFormula, compared_at_once, repeated
from tilewright.frontend.operands.tiles import as_tile, broadcast_together, check_tile_shape
from tilewright.ir.op import Value

__all__ = ["scatter"]


def scatter(lo: Lowering, piece: PieceOperand, call: Arguments) -> Operand:
    """`z.scatter(values, i, j, mask=…)`."""
    node, name = call.node, f"{piece.name}.scatter"
    values = as_tile(lo, call.where("values"), call.operand("values"), piece.spec.dtype)
    if values.dtype is not piece.spec.dtype:
        labels = piece.spec.dtype.label, values.dtype.label
        lo.reject(WrongStoreDType, call.where("values"), piece.name, *labels)
    places = call.places("index")
    if len(places) != piece.rank:
        lo.reject(IndexCount, node, f"`{piece.name}`", piece.rank, len(places))
    indices = [integer_tile(lo, *place) for place in places]
    mask = mask_tile(lo, call.where("mask"), call.operand("mask"))
    given = [values, *indices, *([] if mask is None else [mask])]
    values, *together = broadcast_together(lo, node, name, *given)
    check_tile_shape(lo, node, values.shape, f"the tile of `{name}`", "", values.dtype)
    own = [TileFormula(lo, node, index) for index in together[: piece.rank]]
    inside = _all([_is_own(piece, axis, index) for axis, index in enumerate(own)])
    if mask is not None:
        inside = inside & inside.like(together[-1])
    own = [index.astype(i32) for index in own]
    inside = inside & ~_is_written_again(own, inside)
    absolute = tuple((_first(piece, axis, index) + index).tile for axis, index in enumerate(own))
    elements = elements_at(lo, piece, absolute, inside.tile, values.shape)
    store_elements(lo, elements, values)
    return Static(None)


def _all(conditions: list[TileFormula]) -> TileFormula:
    result, *others = conditions
    for other in others:
        result = result & other
    return result


# --- bounds of the piece --------------------------------------------------------------------------


def _is_own(piece: PieceOperand, axis: int, index: TileFormula) -> TileFormula:
    """Whether indices lie in the piece; they are compared in their own width."""
    low = index >= 0 if index.dtype.signed else None
    below = index < _extent(piece, axis, index)
    return below if low is None else low & below


def _extent(piece: PieceOperand, axis: int, like: TileFormula) -> TileFormula:
    """The extent of the piece along an axis."""
    lo, extent = like.lo, piece.tile[axis]
    if isinstance(piece, SegmentedPiece) and axis == 0:
        begin, end = (like.like(TileOperand(row, i32)) for row in piece.rows)
        return (end - begin).astype(like.dtype)
    given: Operand = extent_of(lo, piece, axis) if extent is None else Static(extent)
    return like.like(as_tile(lo, ast.Pass(), given, i32)).astype(like.dtype)


def _first(piece: PieceOperand, axis: int, like: TileFormula) -> TileFormula:
    """The first element of the piece along an axis; a sum that wraps is negative, so outside."""
    if isinstance(piece, SegmentedPiece) and axis == 0:
        return like.like(TileOperand(piece.rows[0], i32))
    start, extent = like.like(TileOperand(piece.index[axis], i32)), piece.tile[axis]
    return start * (0 if extent is None else extent)


# --- one value for each element -------------------------------------------------------------------


def _is_written_again(indices: list[TileFormula], inside: TileFormula) -> TileFormula:
    """Whether a later value goes to the same element: each is compared with some at a time."""
    shape, number = inside.shape, prod(inside.shape)
    lines = [index.reshaped(number) for index in indices]
    written = inside.reshaped(number)
    width = compared_at_once(number, number)
    own = lines[0].counted(number)

    def turn(counter: TileFormula, lost: TileFormula) -> TileFormula:
        others = [_part(line, counter.tile.value, width) for line in lines]
        same = [
            line.reshaped(number, 1).equals(other)
            for line, other in zip(lines, others, strict=True)
        ]
        later = (counter * width + counter.counted(width)) > own.reshaped(number, 1)
        again = _all([*same, later, _part(written, counter.tile.value, width)])
        return lost | again.like(reduced_truth(again.lo, ANY, again.tile, 1))

    nothing = inside.lo.builder.constant(0, bool_.element, (number,), bool_)
    return repeated(number // width, inside.like(TileOperand(nothing, bool_)), turn).reshaped(
        *shape
    )


def _part(line: TileFormula, number: Value, width: int) -> TileFormula:
    return line.part((width,), (number,)).reshaped(1, width)
