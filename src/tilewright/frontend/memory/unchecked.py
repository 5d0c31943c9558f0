"""Unchecked loads and stores of tiles, inside an unsafe block only.

They are the accesses of `partitions` and `pieces` without the check. An index outside the tiles of
a tensor is undefined on a GPU and reported by the CPU device; a part outside this block's piece
belongs to another block, and the race checker reports it.
"""

from __future__ import annotations

from tilewright.check.errors.types import IndexCount
from tilewright.dtypes import i32
from tilewright.frontend.calling.arguments import Arguments
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.memory.partitions import view_of
from tilewright.frontend.memory.pieces import first_part, load_at, store_at
from tilewright.frontend.memory.shifted_windows import load_shifted
from tilewright.frontend.memory.stores import storable
from tilewright.frontend.memory.tensors import loaded_from
from tilewright.frontend.memory.unsafe import require_unsafe
from tilewright.frontend.operands.operands import Operand, PartitionOperand, PiecePartition, Static
from tilewright.frontend.operands.tiles import as_index
from tilewright.ir.op import Value
from tilewright.ir.ops.elementwise import AddI

__all__ = ["load_part_unchecked", "load_tile_unchecked", "store_part_unchecked"]

_CHECKED_LOAD = "`p[i]` is checked, and costs nothing where the index can be proved"
_CHECKED_STORE = "`p.store(tile, i)` is checked, and costs nothing where the index can be proved"


def _index(lo: Lowering, call: Arguments, owner: Operand, rank: int) -> tuple[Value, ...]:
    places = call.places("index")
    if len(places) != rank:
        lo.reject(IndexCount, call.node, str(owner), rank, len(places))
    return tuple(as_index(lo, node, operand) for node, operand in places)


def load_tile_unchecked(lo: Lowering, source: PartitionOperand, call: Arguments) -> Operand:
    """`p.load_unchecked(i, j)` of a shared tensor."""
    why = "the place may lie outside the tensor"
    require_unsafe(lo, call.node, "`load_unchecked`", why, _CHECKED_LOAD)
    index = _index(lo, call, source, source.rank)
    if any(source.starts):
        return load_shifted(lo, source, index)
    is_whole = source.padding is None
    return loaded_from(lo, view_of(lo, source), source.tensor, index, is_whole=is_whole)


def _part(lo: Lowering, parts: PiecePartition, call: Arguments) -> tuple[Value, ...]:
    own = _index(lo, call, parts, parts.piece.rank)
    return tuple(
        lo.builder.add(
            AddI(lhs=first_part(lo, parts.piece, axis, parts.tile[axis]), rhs=part, dtype=i32)
        ).result
        for axis, part in enumerate(own)
    )


def load_part_unchecked(lo: Lowering, parts: PiecePartition, call: Arguments) -> Operand:
    """`p.load_unchecked(i, j)` of this block's piece, and beyond it."""
    why = "the place may lie in another block's piece, or outside the tensor"
    require_unsafe(lo, call.node, "`load_unchecked`", why, _CHECKED_LOAD)
    return load_at(lo, parts.piece, parts.tile, _part(lo, parts, call), is_whole=parts.is_inside)


def store_part_unchecked(lo: Lowering, parts: PiecePartition, call: Arguments) -> Operand:
    """`p.store_unchecked(tile, i, j)` into this block's piece, or beyond it."""
    why = "the place may lie in another block's piece, or outside the tensor"
    require_unsafe(lo, call.node, "`store_unchecked`", why, _CHECKED_STORE)
    tile = storable(lo, call, parts.piece, parts.tile)
    part = _part(lo, parts, call)
    store_at(lo, parts.piece, parts.tile, tile, part, is_whole=parts.is_inside)
    return Static(None)
