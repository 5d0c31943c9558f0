"""Gathers: `x.gather(rows, columns)`, and the one element of a rank-0 tensor.

Each axis has its index, a tile or a scalar, and they broadcast together as in NumPy. An element
outside the tensor, a negative index included, is never read: it gives the padding. So a gather
needs no bounds check for any index.
"""

from __future__ import annotations

from tilewright.check.errors.syntax import BadCall
from tilewright.check.errors.types import WrongOperand
from tilewright.frontend.calling.arguments import Arguments
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.memory.elements import Elements, elements_at, index_tiles, mask_tile
from tilewright.frontend.memory.load_hints import load_hints
from tilewright.frontend.operands.operands import Operand, RefOperand, TileOperand
from tilewright.frontend.operands.tiles import (
    as_tile,
    broadcast_to,
    broadcast_together,
    check_tile_shape,
)
from tilewright.ir.attributes import TargetHints
from tilewright.ir.op import Value
from tilewright.ir.ops.memory import LoadPtr

__all__ = ["gather", "item"]


def item(lo: Lowering, tensor: RefOperand, call: Arguments) -> Operand:
    """`x.item()`: the element of a tensor of rank 0."""
    if tensor.rank:
        reason = f"its rank is {tensor.rank}, and only a tensor without axes is one element"
        way_out = f"`{tensor.name}.gather(…)` reads elements by their indices"
        lo.reject(BadCall, call.node, f"{tensor.name}.item", reason, way_out)
    return _loaded(lo, tensor, elements_at(lo, tensor, (), None, ()), None, None)


def gather(lo: Lowering, tensor: RefOperand, call: Arguments) -> Operand:
    """`x.gather(i, j, mask=…, padding=…)`: one element for each position of the indices."""
    if not tensor.rank:
        reason = "it has no axes to index"
        way_out = f"`{tensor.name}.item()` reads its element"
        lo.reject(BadCall, call.node, f"{tensor.name}.gather", reason, way_out)
    indices = index_tiles(lo, call.node, tensor, call.places("index"))
    mask = mask_tile(lo, call.where("mask"), call.operand("mask"))
    tiles = indices if mask is None else (*indices, mask)
    shape = broadcast_together(lo, call.node, f"{tensor.name}.gather", *tiles)[0].shape
    what = f"the tile of `{tensor.name}.gather`"
    check_tile_shape(lo, call.node, shape, what, "", tensor.spec.dtype)
    elements = elements_at(lo, tensor, indices, mask, shape)
    padding = broadcast_to(lo, _padding(lo, call, tensor), shape).value
    return _loaded(lo, tensor, elements, padding, load_hints(lo, call))


def _loaded(
    lo: Lowering,
    tensor: RefOperand,
    elements: Elements,
    padding: Value | None,
    hints: TargetHints | None,
) -> Operand:
    load = LoadPtr(
        source=elements.pointers, mask=elements.inside, padding_value=padding, hints=hints
    )
    result = lo.builder.add(load).result
    result.dtype = tensor.spec.dtype
    return TileOperand(result, tensor.spec.dtype)


def _padding(lo: Lowering, call: Arguments, tensor: RefOperand) -> TileOperand:
    """The padding of elements that are not read: any number of the tensor's dtype."""
    where, dtype = call.where("padding"), tensor.spec.dtype
    padding = as_tile(lo, where, call.operand("padding"), dtype)
    if padding.dtype is not dtype:
        reason = f"the tensor holds {dtype.label}; this is {padding}"
        lo.reject(WrongOperand, where, "padding", reason, f"convert it: `.astype({dtype.label})`")
    if padding.shape:
        reason = f"it is one number for all elements; this is {padding}"
        lo.reject(WrongOperand, where, "padding", reason, "for a tile of values use tw.where")
    return padding
