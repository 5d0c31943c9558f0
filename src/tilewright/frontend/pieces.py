"""This block's piece of an output, and parts of it.

A store to a piece has no coordinate; one to a part of it is checked like a load.
"""

from __future__ import annotations

import ast

from tilewright.check.errors.ownership import IndexedPieceStore
from tilewright.check.errors.syntax import BadCall
from tilewright.check.errors.types import IndexCount
from tilewright.dtypes import i32
from tilewright.frontend.arguments import Arguments, Place
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands import Operand, PieceOperand, PiecePartition, Static
from tilewright.frontend.stores import storable, store_tile
from tilewright.frontend.tensors import (
    checked,
    loaded,
    tile_argument,
    tile_count,
    whole_tile,
)
from tilewright.frontend.tiles import check_tile_shape
from tilewright.ir.op import Value
from tilewright.ir.ops.elementwise import MinI, MulI, SubI
from tilewright.ir.ops.internal import CheckSite, PartIndex
from tilewright.ir.types import Padding

__all__ = [
    "load_part",
    "load_piece",
    "part_count",
    "partition_piece",
    "refuse_indexed_store",
    "store_part",
    "store_piece",
]


# --- this block's piece ---------------------------------------------------------------------------


def load_piece(lo: Lowering, piece: PieceOperand, call: Arguments) -> Operand:
    """`z.load()`: what the piece holds now."""
    return loaded(lo, piece, whole_tile(lo, call.node, piece), Padding.ZERO, piece.index)


def store_piece(lo: Lowering, piece: PieceOperand, call: Arguments) -> Operand:
    """`z.store(tile)`."""
    shape = whole_tile(lo, call.node, piece)
    store_tile(lo, piece, shape, storable(lo, call, piece, shape), piece.index)
    return Static(None)


def refuse_indexed_store(lo: Lowering, node: ast.Call, piece: PieceOperand) -> None:
    """A store to a piece with more than the tile names a place, which is not its to choose."""
    if len(node.args) > 1:
        lo.reject(IndexedPieceStore, node.args[1], piece.name, piece.rank)


# --- parts of a piece -----------------------------------------------------------------------------


def partition_piece(lo: Lowering, piece: PieceOperand, call: Arguments) -> Operand:
    """`z.partition(sub…)`: parts that divide this block's piece."""
    sub = tile_argument(lo, call, "part", piece.rank, f"`{piece.name}`")
    way_out = "use powers of two that divide the piece"
    check_tile_shape(lo, call.node, sub, f"a part of `{piece.name}`", way_out)
    for axis, part in enumerate(sub):
        _check_division(lo, call.node, piece, axis, part)
    places = [_parts_along(lo, piece, axis, part) for axis, part in enumerate(sub)]
    origin, counts = (tuple(values) for values in zip(*places, strict=True))
    return PiecePartition(piece, sub, counts, origin)


def _check_division(lo: Lowering, node: ast.AST, piece: PieceOperand, axis: int, part: int) -> None:
    """Parts divide their piece: the last would reach into another block's otherwise."""
    whole = piece.tile[axis]
    if whole is None or whole % part == 0:
        return
    reason = (
        f"parts of {part} do not divide the piece of {whole} along axis {axis}: the last "
        f"would reach into another block's"
    )
    way_out = f"the largest power of two that divides {whole} is {whole & -whole}"
    lo.reject(BadCall, node, f"{piece.name}.partition", reason, way_out)


def _parts_along(lo: Lowering, piece: PieceOperand, axis: int, part: int) -> tuple[Value, Value]:
    """The first part of the piece, and how many of its parts begin inside the tensor."""
    add, whole = lo.builder.add, piece.tile[axis]
    if whole is None:
        return lo.builder.index(0), tile_count(lo, piece, axis, part)
    if whole == part:
        return piece.index[axis], lo.builder.index(1)
    per_piece = lo.builder.index(whole // part)
    first = add(MulI(lhs=piece.index[axis], rhs=per_piece, dtype=i32)).result
    remaining = add(SubI(lhs=tile_count(lo, piece, axis, part), rhs=first, dtype=i32)).result
    return first, add(MinI(lhs=per_piece, rhs=remaining, dtype=i32)).result


def part_count(lo: Lowering, parts: PiecePartition, axis: int) -> Value:
    """How many parts begin inside the tensor."""
    return parts.counts[axis]


def _part_index(
    lo: Lowering,
    node: ast.AST,
    parts: PiecePartition,
    places: tuple[Place, ...],
    *,
    is_store: bool,
) -> tuple[Value, ...]:
    if len(places) != parts.piece.rank:
        lo.reject(IndexCount, node, str(parts), parts.piece.rank, len(places))
    found = []
    for axis, place in enumerate(places):
        site = CheckSite(parts.piece.name, axis, parts.tile[axis], is_store, of_piece=True)
        own, whole = checked(lo, place, parts.counts[axis], site), parts.piece.tile[axis]
        if whole is None:  # a whole axis starts at its first part
            found.append(own)
            continue
        index = PartIndex(
            piece=parts.piece.index[axis], own=own, parts=whole // parts.tile[axis], dtype=i32
        )
        found.append(lo.builder.add(index).result)
    return tuple(found)


def load_part(
    lo: Lowering, node: ast.AST, parts: PiecePartition, places: tuple[Place, ...]
) -> Operand:
    """`p[i, j]` of this block's own piece."""
    index = _part_index(lo, node, parts, places, is_store=False)
    return loaded(lo, parts.piece, parts.tile, Padding.ZERO, index)


def store_part(lo: Lowering, parts: PiecePartition, call: Arguments) -> Operand:
    """`p.store(tile, i, j)` into this block's own piece."""
    tile = storable(lo, call, parts.piece, parts.tile)
    index = _part_index(lo, call.node, parts, call.places("index"), is_store=True)
    store_tile(lo, parts.piece, parts.tile, tile, index)
    return Static(None)
