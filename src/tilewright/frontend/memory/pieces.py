"""This block's piece of an output, and parts of it.

A store to a piece has no index; the index of a store to a part is checked like that of a load.
"""

from __future__ import annotations

import ast

from tilewright.check.errors.ownership import IndexedPieceStore
from tilewright.check.errors.syntax import BadCall
from tilewright.check.errors.types import IndexCount
from tilewright.dtypes import i32
from tilewright.frontend.calling.arguments import Arguments, Place
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.memory.exact import (
    exact_argument,
    whole_argument,
    whole_count,
)
from tilewright.frontend.memory.segments import elements_of_part, load_elements, store_elements
from tilewright.frontend.memory.stores import masked, storable, store_tile
from tilewright.frontend.memory.tensors import (
    checked,
    extent_of,
    loaded,
    padding_argument,
    tile_argument,
    tile_count,
    whole_tile,
)
from tilewright.frontend.operands.operands import (
    Operand,
    PieceOperand,
    PiecePartition,
    RefOperand,
    SegmentedPiece,
    Static,
    TileOperand,
    TupleOperand,
)
from tilewright.frontend.operands.tiles import as_tile, check_tile_shape
from tilewright.frontend.signature.specialization import offsets_name
from tilewright.ir.attributes import Predicate
from tilewright.ir.check_sites import CheckSite
from tilewright.ir.launch_terms import Extent
from tilewright.ir.op import Value
from tilewright.ir.ops.elementwise import AddI, CmpI, MinI, MulI, SubI
from tilewright.ir.ops.internal import FloorDiv, PartIndex, Require
from tilewright.ir.types import Padding

__all__ = [
    "first_part",
    "load_at",
    "load_like",
    "load_part",
    "load_piece",
    "part_count",
    "partition_piece",
    "refuse_indexed_store",
    "rows_of_piece",
    "segment_of_piece",
    "segments_of_piece",
    "store_at",
    "store_part",
    "store_piece",
]


# --- this block's piece ---------------------------------------------------------------------------


def load_piece(lo: Lowering, piece: PieceOperand, call: Arguments) -> Operand:
    """`z.load()`: the current contents of the piece."""
    shape = whole_tile(lo, call.node, piece)
    return load_at(lo, piece, shape, _whole(lo, piece))


def store_piece(lo: Lowering, piece: PieceOperand, call: Arguments) -> Operand:
    """`z.store(tile, mask=…)`."""
    shape, part = whole_tile(lo, call.node, piece), _whole(lo, piece)
    tile = storable(lo, call, piece, shape)
    tile = masked(lo, call, tile, lambda: load_at(lo, piece, shape, part))
    store_at(lo, piece, shape, tile, part)
    return Static(None)


def _whole(lo: Lowering, piece: PieceOperand) -> tuple[Value, ...]:
    """The index of the one part of a piece that is not cut."""
    if isinstance(piece, SegmentedPiece):
        return lo.builder.index(0), *piece.index[1:]
    return piece.index


def load_at(
    lo: Lowering,
    piece: PieceOperand,
    shape: tuple[int, ...],
    part: tuple[Value, ...],
    *,
    is_whole: bool = False,
) -> TileOperand:
    """The tile at an index of the piece, which the caller has checked."""
    if isinstance(piece, SegmentedPiece):
        elements = elements_of_part(lo, piece, piece, shape, part)
        zero = as_tile(lo, ast.Pass(), Static(0), piece.spec.dtype)
        return load_elements(lo, piece, elements, zero)
    return loaded(lo, piece, shape, None if is_whole else Padding.ZERO, part)


def store_at(
    lo: Lowering,
    piece: PieceOperand,
    shape: tuple[int, ...],
    tile: TileOperand,
    part: tuple[Value, ...],
    *,
    is_whole: bool = False,
) -> None:
    """Write a tile at an index of the piece."""
    if isinstance(piece, SegmentedPiece):
        store_elements(lo, elements_of_part(lo, piece, piece, shape, part), tile)
    else:
        store_tile(lo, piece, shape, tile, part, is_whole=is_whole)


def refuse_indexed_store(lo: Lowering, node: ast.Call, piece: PieceOperand) -> None:
    """Refuse a store to a piece with an index, since a block owns one piece alone."""
    if len(node.args) > 1:
        lo.reject(IndexedPieceStore, node.args[1], piece.name, piece.rank)


def load_like(lo: Lowering, tensor: RefOperand, call: Arguments) -> Operand:
    """`x.load_like(z)`: the part of x at the position of this block's piece of z."""
    piece = call.operand("output")
    way_out = f"`{tensor.name}.partition(…)[i]` reads at any place"
    if not isinstance(piece, PieceOperand):
        reason = f"it follows the piece of a Mut; this is {piece}"
        lo.reject(BadCall, call.where("output"), f"{tensor.name}.load_like", reason, way_out)
    if piece.rank != tensor.rank:
        reason = f"`{tensor.name}` has rank {tensor.rank} and `{piece.name}` has rank {piece.rank}"
        callee = f"{tensor.name}.load_like({piece.name})"
        lo.reject(BadCall, call.node, callee, reason, way_out)
    tile, padding = whole_tile(lo, call.node, piece), padding_argument(lo, call, tensor)
    for axis in range(tensor.rank):
        _require_equal_extents(lo, tensor, piece, axis)
    if isinstance(piece, SegmentedPiece):
        elements = elements_of_part(lo, tensor, piece, tile, _whole(lo, piece))
        fill = as_tile(lo, call.where("padding"), call.operand("padding"), tensor.spec.dtype)
        return load_elements(lo, tensor, elements, fill)
    places = tuple(
        checked(
            lo,
            (call.node, TileOperand(index, i32)),
            tile_count(lo, tensor, axis, tile[axis]),
            CheckSite(tensor.name, tensor.along(axis), tile[axis]),
        )
        for axis, index in enumerate(piece.index)
    )
    return loaded(lo, tensor, tile, padding, places)


def _require_equal_extents(
    lo: Lowering, tensor: RefOperand, piece: PieceOperand, axis: int
) -> None:
    """Require, at launch, that both tensors have equal extents."""
    left, right = (
        as_tile(lo, ast.Pass(), extent_of(lo, t, axis), i32).value for t in (tensor, piece)
    )
    same = CmpI(lhs=left, rhs=right, comparison_predicate=Predicate.EQUAL)
    condition = lo.builder.add(same).result
    x, z = tensor.name, piece.name
    extents = f"{x}.shape[{tensor.along(axis)}] == {z}.shape[{piece.along(axis)}]"
    text = f"{extents}, since {x} is read like {z}"
    lo.builder.add(Require(condition=condition, text=text))


# --- position -------------------------------------------------------------------------------------


def rows_of_piece(lo: Lowering, piece: PieceOperand) -> Operand:
    """`z.rows`: start and end of the piece along the first axis of the tensor."""
    if isinstance(piece, SegmentedPiece):
        return _pair(*piece.rows)
    height, rows = piece.tile[0], _extent(lo, piece)
    if height is None:
        return _pair(lo.builder.index(0), rows)
    add, size = lo.builder.add, lo.builder.index(height)
    begin = add(MulI(lhs=piece.index[0], rhs=size, dtype=i32)).result
    # The remaining rows are compared, since a sum might not fit.
    left = add(SubI(lhs=rows, rhs=begin, dtype=i32)).result
    own = add(MinI(lhs=size, rhs=left, dtype=i32)).result
    return _pair(begin, add(AddI(lhs=begin, rhs=own, dtype=i32)).result)


def segment_of_piece(lo: Lowering, piece: PieceOperand) -> Operand:
    """`z.segment`: start and end of the piece's segment; without segments, of all rows."""
    if isinstance(piece, SegmentedPiece):
        return _pair(*piece.segment)
    return _pair(lo.builder.index(0), _extent(lo, piece))


def segments_of_piece(lo: Lowering, piece: PieceOperand) -> Operand:
    """`z.segments`: one fewer than the number of offsets."""
    if not isinstance(piece, SegmentedPiece):
        return Static(1)
    offsets = lo.launch_value(Extent(offsets_name(piece.name), 0))
    count = lo.builder.add(SubI(lhs=offsets, rhs=lo.builder.index(1), dtype=i32)).result
    count.hint = f"{piece.name}.segments"
    return TileOperand(count, i32)


def _extent(lo: Lowering, piece: PieceOperand) -> Value:
    return as_tile(lo, ast.Pass(), extent_of(lo, piece, 0), i32).value


def _pair(begin: Value, end: Value) -> TupleOperand:
    return TupleOperand((TileOperand(begin, i32), TileOperand(end, i32)))


# --- parts of a piece -----------------------------------------------------------------------------


def partition_piece(lo: Lowering, piece: PieceOperand, call: Arguments) -> Operand:
    """`z.partition(sub…)`: parts that divide this block's piece."""
    sub = tile_argument(lo, call, "part", piece.rank, f"`{piece.name}`")
    way_out = "use powers of two that divide the piece"
    check_tile_shape(lo, call.node, sub, f"a part of `{piece.name}`", way_out, piece.spec.dtype)
    for axis, part in enumerate(sub):
        _check_division(lo, call.node, piece, axis, part)
    is_exact, is_whole = exact_argument(lo, call, piece, sub), whole_argument(lo, call)
    if is_whole:
        counts = tuple(_whole_parts(lo, piece, axis, part) for axis, part in enumerate(sub))
    else:
        counts = tuple(_parts_along(lo, piece, axis, part) for axis, part in enumerate(sub))
    if not isinstance(piece, SegmentedPiece):
        return PiecePartition(piece, sub, counts, counts, is_exact or is_whole, is_whole)
    if is_exact or is_whole:
        word = "exact" if is_exact else "whole"
        reason = f"segments end anywhere, so their parts are not {word}"
        lo.reject(BadCall, call.node, f"{piece.name}.partition", reason, f"leave `{word}=True` out")
    height = piece.tile[0]
    assert height is not None, "the host has checked it"
    limits = (lo.builder.index(height // sub[0]), *counts[1:])
    return PiecePartition(piece, sub, counts, limits)


def _check_division(lo: Lowering, node: ast.AST, piece: PieceOperand, axis: int, part: int) -> None:
    """Check that parts divide their piece, since the last would reach into another otherwise."""
    whole = piece.tile[axis]
    if whole is None or whole % part == 0:
        return
    reason = (
        f"parts of {part} do not divide the piece of {whole} along axis {axis}: the last "
        f"would reach into another block's"
    )
    way_out = f"the largest power of two that divides {whole} is {whole & -whole}"
    lo.reject(BadCall, node, f"{piece.name}.partition", reason, way_out)


def _parts_along(lo: Lowering, piece: PieceOperand, axis: int, part: int) -> Value:
    """Number of parts of a piece that begin inside the tensor."""
    add, whole = lo.builder.add, piece.tile[axis]
    if whole is None:
        return tile_count(lo, piece, axis, part)
    per_piece = lo.builder.index(whole // part)
    if isinstance(piece, SegmentedPiece) and axis == 0:
        remaining = _parts_of_rows(lo, piece, part)
    elif whole == part:
        return per_piece
    else:
        first = first_part(lo, piece, axis, part)
        remaining = add(SubI(lhs=tile_count(lo, piece, axis, part), rhs=first, dtype=i32)).result
    return add(MinI(lhs=per_piece, rhs=remaining, dtype=i32)).result


def _whole_parts(lo: Lowering, piece: PieceOperand, axis: int, part: int) -> Value:
    """Number of parts of a piece that lie inside the tensor."""
    count, whole = whole_count(lo, piece, axis, part), piece.tile[axis]
    if whole is None:
        return count
    first = first_part(lo, piece, axis, part)
    remaining = lo.builder.add(SubI(lhs=count, rhs=first, dtype=i32)).result
    return lo.builder.add(
        MinI(lhs=lo.builder.index(whole // part), rhs=remaining, dtype=i32)
    ).result


def first_part(lo: Lowering, piece: PieceOperand, axis: int, part: int) -> Value:
    """The origin of part indices: the start of the tensor, or of ragged rows."""
    whole = piece.tile[axis]
    if whole is None or (isinstance(piece, SegmentedPiece) and axis == 0):
        return lo.builder.index(0)
    per_piece = lo.builder.index(whole // part)
    return lo.builder.add(MulI(lhs=piece.index[axis], rhs=per_piece, dtype=i32)).result


def _parts_of_rows(lo: Lowering, piece: SegmentedPiece, part: int) -> Value:
    """Number of parts of this height in the rows of a piece."""
    begin, end = piece.rows
    height = lo.builder.add(SubI(lhs=end, rhs=begin, dtype=i32)).result
    rounded = AddI(lhs=height, rhs=lo.builder.index(part - 1), dtype=i32)
    by = lo.builder.index(part)
    return lo.builder.add(FloorDiv(lhs=lo.builder.add(rounded).result, rhs=by, dtype=i32)).result


def part_count(lo: Lowering, parts: PiecePartition, axis: int) -> Value:
    """Number of parts that begin inside the tensor."""
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
        along = parts.piece.along(axis)
        site = CheckSite(
            parts.piece.name,
            along,
            parts.tile[axis],
            is_store,
            of_piece=True,
            is_whole=parts.is_whole,
        )
        own, whole = checked(lo, place, parts.limits[axis], site), parts.piece.tile[axis]
        counted_within = isinstance(parts.piece, SegmentedPiece) and axis == 0
        if whole is None or counted_within:  # a whole axis starts at its first part
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
    return load_at(lo, parts.piece, parts.tile, index, is_whole=parts.is_inside)


def store_part(lo: Lowering, parts: PiecePartition, call: Arguments) -> Operand:
    """`p.store(tile, i, j, mask=…)` into this block's own piece."""
    tile = storable(lo, call, parts.piece, parts.tile)
    index = _part_index(lo, call.node, parts, call.places("index"), is_store=True)
    is_inside = parts.is_inside
    tile = masked(
        lo, call, tile, lambda: load_at(lo, parts.piece, parts.tile, index, is_whole=is_inside)
    )
    store_at(lo, parts.piece, parts.tile, tile, index, is_whole=parts.is_inside)
    return Static(None)
