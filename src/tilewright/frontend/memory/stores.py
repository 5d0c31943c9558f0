"""Stores to outputs: the common part.

The callers, `pieces` and `mapped`, have settled the index.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import NoReturn

from tilewright.check.errors.ownership import StoreToShared
from tilewright.check.errors.types import WrongOperand, WrongStoreDType, WrongStoreShape
from tilewright.frontend.calling.arguments import Arguments
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.memory.elements import mask_tile
from tilewright.frontend.memory.load_hints import view_hints
from tilewright.frontend.operands.operands import TensorOperand, TileOperand
from tilewright.frontend.operands.tiles import as_tile, broadcast_shape, broadcast_to, reshaped
from tilewright.ir.op import Value
from tilewright.ir.ops.elementwise import Select
from tilewright.ir.ops.memory import StoreView

__all__ = ["masked", "refuse_store", "storable", "store_tile"]


def refuse_store(lo: Lowering, node: ast.AST, name: str) -> NoReturn:
    """Refuse a store to a shared tensor."""
    lo.reject(StoreToShared, node, name)


def storable(
    lo: Lowering, call: Arguments, output: TensorOperand, shape: tuple[int, ...]
) -> TileOperand:
    """The tile of a store, checked to have the dtype and the shape of its target."""
    where, dtype = call.where("tile"), output.spec.dtype
    operand = call.operand("tile")
    tile = as_tile(lo, where, operand, dtype)
    if tile.dtype is not dtype:
        lo.reject(WrongStoreDType, where, output.name, dtype.label, tile.dtype.label)
    if tile.shape != shape:
        lo.reject(WrongStoreShape, where, output.name, shape, tile.shape)
    return tile


def masked(
    lo: Lowering, call: Arguments, tile: TileOperand, load: Callable[[], TileOperand]
) -> TileOperand:
    """The tile of a store; where its mask is false, the current elements.

    The block owns the target, so it may read and rewrite it.
    """
    where = call.where("mask")
    mask = mask_tile(lo, where, call.operand("mask"))
    if mask is None:
        return tile
    name = "the mask of a store"
    if broadcast_shape(mask.shape, tile.shape) != tile.shape:
        reason = f"a mask of shape {mask.shape} does not fit a tile of shape {tile.shape}"
        lo.reject(WrongOperand, where, name, reason, "`[:, None]` gives it axes of extent one")
    mask = broadcast_to(lo, mask, tile.shape)
    old = load().value
    made = Select(cond=mask.value, val_if_true=tile.value, val_if_false=old, dtype=tile.dtype)
    return TileOperand(lo.builder.add(made).result, tile.dtype)


def store_tile(
    lo: Lowering,
    output: TensorOperand,
    shape: tuple[int, ...],
    tile: TileOperand,
    index: tuple[Value, ...],
    *,
    is_whole: bool = False,
) -> None:
    """Write a tile at a checked or minted index."""
    view = lo.partition_view(output, shape, None)
    if output.leading:
        tile, index = reshaped(lo, tile, output.whole_tile(shape)), (*output.leading, *index)
    inbounds = (True,) * len(index) if is_whole else ()
    hints = view_hints(lo)
    lo.builder.add(
        StoreView(tile=tile.value, view=view, index=index, hints=hints, inbounds=inbounds)
    )
