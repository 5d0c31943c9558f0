"""This block's piece of an output cut by offsets, computed before the body of the kernel.

Offsets are hidden arguments of the output, without a name in the kernel.
"""

from __future__ import annotations

import ast
from types import FunctionType

from tilewright.dtypes import i32
from tilewright.frontend.calling.inlining import applied
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.memory.segment_search import find_piece
from tilewright.frontend.memory.tensors import extent_of
from tilewright.frontend.operands.operands import (
    FunctionOperand,
    PieceOperand,
    RefOperand,
    SegmentedPiece,
    Static,
    TileOperand,
    TupleOperand,
)
from tilewright.frontend.operands.tiles import as_tile
from tilewright.ir.ops.elementwise import SubI
from tilewright.ir.ops.internal import NotEmpty

__all__ = ["segmented_piece"]


def segmented_piece(lo: Lowering, piece: PieceOperand, offsets: RefOperand) -> SegmentedPiece:
    """This block's piece, by its number among the pieces of all segments."""
    assert isinstance(find_piece, FunctionType)
    where = lo.frame.source.node
    call = ast.copy_location(ast.Call(ast.Name(find_piece.__name__), [], []), where)
    height = piece.tile[0]
    assert height is not None, "the host has checked it"
    number = TileOperand(piece.index[0], i32)
    rows = as_tile(lo, where, extent_of(lo, piece, 0), i32)
    operands = (offsets, number, rows, Static(height))
    _note_some_segment(lo, piece, offsets)
    found = applied(lo, call, FunctionOperand(find_piece), operands)
    assert isinstance(found, TupleOperand)
    values = tuple(as_tile(lo, where, item, i32).value for item in found.items)
    names = ("index[0]", "index[1]", "rows[0]", "rows[1]", "segment[0]", "segment[1]")
    for name, value in zip(names, values, strict=True):
        value.hint = f"{piece.name}.{name}"
    segment, own, begin, end, low, high = values
    plain = (piece.name, piece.spec, piece.view, piece.rank, piece.index)
    return SegmentedPiece(*plain, (segment, own), (begin, end), (low, high))


def _note_some_segment(lo: Lowering, piece: PieceOperand, offsets: RefOperand) -> None:
    """A block has a segment to look at: without any the launch has no blocks."""
    places = as_tile(lo, lo.frame.source.node, extent_of(lo, offsets, 0), i32).value
    segments = lo.builder.add(SubI(lhs=places, rhs=lo.builder.index(1), dtype=i32)).result
    lo.builder.add(NotEmpty(count=segments, text=f"{piece.name}.segments > 0"))
