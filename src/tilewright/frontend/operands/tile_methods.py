"""Methods of tiles: dtype and shape."""

from __future__ import annotations

from math import prod

from tilewright.check.errors.types import NotBroadcastable, WrongOperand
from tilewright.dtypes import DType, f8e8m0fnu
from tilewright.frontend.builtins.modifiers import ROUNDINGS, rounding_argument
from tilewright.frontend.calling.arguments import Arguments
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.operands import Operand, TileOperand, TupleOperand
from tilewright.frontend.operands.tiles import (
    broadcast_shape,
    broadcast_to,
    convert,
    dtype_argument,
    reshaped,
    shape_argument,
    static_int,
)
from tilewright.ir.attributes import Rounding
from tilewright.ir.ops.shape import Permute
from tilewright.ir.verify.conversions import float_roundings

__all__ = ["astype", "broadcast", "item", "permute", "reshape", "transposed"]


def astype(lo: Lowering, tile: TileOperand, call: Arguments) -> Operand:
    """`t.astype(f16)`, and `t.astype(f16, rounding="zero")`."""
    dtype = dtype_argument(lo, call.where("dtype"), call.operand("dtype"))
    if dtype is f8e8m0fnu and tile.dtype is not dtype and not call.given("rounding"):
        lo.reject(
            WrongOperand, call.node, f"{tile.dtype.label} to {dtype.label}",
            "it holds powers of two, and there are two next to a number",
            'say which: `rounding="zero"` is the one below, `rounding="up"` the one above',
        )  # fmt: skip
    if not call.given("rounding"):
        return convert(lo, tile, dtype)
    return convert(lo, tile, dtype, _rounding_between(lo, call, tile.dtype, dtype))


def _rounding_between(
    lo: Lowering, call: Arguments, source: type[DType], dtype: type[DType]
) -> Rounding:
    """The rounding mode of the call, if the conversion supports it."""
    asked, where = rounding_argument(lo, call), call.where("rounding")
    if source.element.is_integer or dtype.element.is_integer:
        lo.reject(
            WrongOperand, where, f"rounding from {source.label} to {dtype.label}",
            "it is chosen from float to float; integers round to nearest, floats are cut",
            "use tw.floor or tw.ceil, or convert to f32 first",
        )  # fmt: skip
    fitting = float_roundings(source.element, dtype.element)
    if source is not dtype and asked not in fitting:
        words = [f'"{word}"' for word, mode in ROUNDINGS.items() if mode in fitting]
        reason = f"there are {', '.join(words)}"
        lo.reject(WrongOperand, where, f"rounding from {source.label} to {dtype.label}", reason)
    return asked


def _several(operands: tuple[Operand, ...]) -> Operand:
    """`t.reshape(4, 8)` and `t.reshape((4, 8))` mean the same."""
    return operands[0] if len(operands) == 1 else TupleOperand(operands)


def reshape(lo: Lowering, tile: TileOperand, call: Arguments) -> Operand:
    """`t.reshape(…)`: the same number of elements."""
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
    given = tuple(static_int(lo, call.node, axis, "an axis") for axis in items)
    rank = len(tile.shape)
    axes = tuple(axis + rank if axis < 0 else axis for axis in given)
    if sorted(axes) != list(range(rank)):
        lo.reject(
            WrongOperand, call.node, f"permute{given}",
            f"a tile of rank {rank} needs each of its axes once",
        )  # fmt: skip
    return _permuted(lo, tile, axes)


def transposed(lo: Lowering, tile: TileOperand) -> Operand:
    """`t.T`: the axes in reverse order."""
    return _permuted(lo, tile, tuple(reversed(range(len(tile.shape)))))


def _permuted(lo: Lowering, tile: TileOperand, axes: tuple[int, ...]) -> Operand:
    if axes == tuple(range(len(axes))):
        return tile
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
