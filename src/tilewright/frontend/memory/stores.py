"""Stores to outputs: what all of them have in common.

Which place a tile may go to is the business of `pieces` and `mapped`; here it is known.
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
    """A store to something shared."""
    lo.reject(StoreToShared, node, name)


def storable(
    lo: Lowering, call: Arguments, output: TensorOperand, shape: tuple[int, ...]
) -> TileOperand:
    """The tile of a store: it has the dtype and the shape of the place it goes to."""
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
    """The tile of a store; where its mask is false, the elements that are there.

    The block owns the place, so that it may read and write it again.
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
    """Write a tile at a place that was checked or minted."""
    view = lo.partition_view(output, shape, None)
    if output.leading:
        tile, index = reshaped(lo, tile, output.whole_tile(shape)), (*output.leading, *index)
    inbounds = (True,) * len(index) if is_whole else ()
    hints = view_hints(lo)
    lo.builder.add(
        StoreView(tile=tile.value, view=view, index=index, hints=hints, inbounds=inbounds)
    )
