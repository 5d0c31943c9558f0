"""Indexing of leading axes: `q[b, h]` has the remaining axes.

A shared tensor takes any index, checked like every other. A piece takes only its own index, along
axes where it has one element: any other index is refused, so two exchanged ones never compile.
"""

from __future__ import annotations

import ast
from dataclasses import replace

from tilewright.check.errors.types import IndexCount, WrongOperand
from tilewright.frontend.calling.arguments import Place
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.memory.tensors import checked, tile_count
from tilewright.frontend.operands.operands import (
    MappedOperand,
    PieceOperand,
    RefOperand,
    SegmentedPiece,
    TileOperand,
)
from tilewright.ir.check_sites import CheckSite

__all__ = ["tensor_at"]


def tensor_at(
    lo: Lowering,
    node: ast.AST,
    tensor: RefOperand | PieceOperand | MappedOperand,
    places: tuple[Place, ...],
) -> RefOperand | PieceOperand:
    """A tensor, or a piece of one, at indices of its first axes."""
    if isinstance(tensor, RefOperand):
        return _ref_at(lo, node, tensor, places)
    if isinstance(tensor, PieceOperand):
        return _piece_at(lo, node, tensor, places)
    reason = "it has a piece at each place of its walk"
    way_out = f"`{tensor.name}.piece(at)` is the one at `at`"
    lo.reject(WrongOperand, node, f"{tensor} cannot be indexed", reason, way_out)


def _ref_at(
    lo: Lowering, node: ast.AST, tensor: RefOperand, places: tuple[Place, ...]
) -> RefOperand:
    """`q[b, h]`: the part of `q` at these indices of its first axes."""
    if len(places) > tensor.rank:
        lo.reject(IndexCount, node, str(tensor), tensor.rank, len(places))
    found = tuple(
        checked(
            lo,
            place,
            tile_count(lo, tensor, axis, 1),
            CheckSite(tensor.name, tensor.along(axis), 1),
        )
        for axis, place in enumerate(places)
    )
    leading = (*tensor.leading, *found)
    return replace(tensor, rank=tensor.rank - len(found), leading=leading)


def _piece_at(
    lo: Lowering, node: ast.AST, piece: PieceOperand, places: tuple[Place, ...]
) -> PieceOperand:
    """`z[b, h]`: this block's piece without axes along which it has one element."""
    if isinstance(piece, SegmentedPiece):
        reason = "its rows are those of a segment"
        way_out = f"`{piece.name}.store(tile)` writes the whole piece"
        lo.reject(WrongOperand, node, f"{piece} cannot be indexed", reason, way_out)
    if len(places) >= piece.rank:
        reason = (
            f"it has {piece.rank} axes, one of which at least is left, and these are {len(places)}"
        )
        lo.reject(WrongOperand, node, f"{piece} cannot be indexed", reason)
    for axis, (where, operand) in enumerate(places):
        along, own = piece.along(axis), f"{piece.name}.index[{piece.along(axis)}]"
        if piece.tile[axis] != 1:
            extent = "all of it" if piece.tile[axis] is None else f"{piece.tile[axis]} elements"
            reason = (
                f"along axis {along} a block owns {extent}, and only an axis of one is left out"
            )
            way_out = f"`p = {piece.name}.partition(…)`, then `p[i]`"
            lo.reject(WrongOperand, where, f"{piece} cannot be indexed", reason, way_out)
        if not isinstance(operand, TileOperand) or operand.value is not piece.index[axis]:
            reason = f"this block's place along axis {along} is `{own}`, and it owns no other"
            lo.reject(WrongOperand, where, f"{piece} has another place", reason, f"write `{own}`")
    count = len(places)
    return replace(
        piece,
        rank=piece.rank - count,
        index=piece.index[count:],
        leading=(*piece.leading, *piece.index[:count]),
    )
