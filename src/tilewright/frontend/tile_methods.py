"""Methods of tiles: dtype and shape."""

from __future__ import annotations

from math import prod

from tilewright.check.errors.types import NotBroadcastable, WrongOperand
from tilewright.frontend.arguments import Arguments
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands import Operand, TileOperand, TupleOperand
from tilewright.frontend.tiles import (
    broadcast_shape,
    broadcast_to,
    convert,
    dtype_argument,
    reshaped,
    shape_argument,
    static_int,
)
from tilewright.ir.ops.shape import Permute

__all__ = ["astype", "broadcast", "item", "permute", "reshape", "transposed"]


def astype(lo: Lowering, tile: TileOperand, call: Arguments) -> Operand:
    """`t.astype(f16)`."""
    return convert(lo, tile, dtype_argument(lo, call.where("dtype"), call.operand("dtype")))


def _several(operands: tuple[Operand, ...]) -> Operand:
    """`t.reshape(4, 8)` and `t.reshape((4, 8))` mean the same."""
    return operands[0] if len(operands) == 1 else TupleOperand(operands)


def reshape(lo: Lowering, tile: TileOperand, call: Arguments) -> Operand:
    """`t.reshape(…)`: as many elements as before."""
    shape = shape_argument(lo, call.node, _several(call.operands("shape")))
    if prod(shape) != prod(tile.shape):
        lo.reject(
            WrongOperand, call.node, f"reshape of {tile.shape} to {shape}",
            f"{prod(tile.shape)} elements are not {prod(shape)}",
        )  # fmt: skip
    return reshaped(lo, tile, shape)


def broadcast(lo: Lowering, tile: TileOperand, call: Arguments) -> Operand:
    """`t.broadcast_to(…)`."""
    shape = shape_argument(lo, call.node, _several(call.operands("shape")))
    if broadcast_shape(tile.shape, shape) != shape:
        lo.reject(NotBroadcastable, call.node, "broadcast_to", tile.shape, shape)
    return broadcast_to(lo, tile, shape)


def permute(lo: Lowering, tile: TileOperand, call: Arguments) -> Operand:
    """`t.permute(1, 0)`."""
    operand = _several(call.operands("axes"))
    items = operand.items if isinstance(operand, TupleOperand) else (operand,)
    axes = tuple(static_int(lo, call.node, axis, "an axis") for axis in items)
    if sorted(axes) != list(range(len(tile.shape))):
        lo.reject(
            WrongOperand, call.node, f"permute{axes}",
            f"a tile of rank {len(tile.shape)} needs each of its axes once",
        )  # fmt: skip
    return _permuted(lo, tile, axes)


def transposed(lo: Lowering, tile: TileOperand) -> Operand:
    """`t.T`: the axes in reverse order."""
    return _permuted(lo, tile, tuple(reversed(range(len(tile.shape)))))


def _permuted(lo: Lowering, tile: TileOperand, axes: tuple[int, ...]) -> Operand:
    op = Permute(source=tile.value, permutation=axes, dtype=tile.dtype)
    return TileOperand(lo.builder.add(op).result, tile.dtype)


def item(lo: Lowering, tile: TileOperand, call: Arguments) -> Operand:
    """`t.item()`: the only element, as a scalar."""
    if prod(tile.shape) != 1:
        lo.reject(
            WrongOperand, call.node, "`.item()` gives the only element", f"this is {tile}",
            "reduce it first: `tw.sum(t)`, `tw.max(t)`",
        )  # fmt: skip
    return reshaped(lo, tile, ())
