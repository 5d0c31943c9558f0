"""Pointers in a kernel: offsets and shapes. Loads, stores and atomics are in `builtins.memory`.

A pointer is a compile-time aggregate like a tensor: a loop carries the offset, not the pointer.
"""

from __future__ import annotations

import ast
from math import prod

from tilewright.check.errors.types import NotBroadcastable, WrongOperand
from tilewright.dtypes import i32, i64
from tilewright.frontend.calling.arguments import Arguments
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.memory.unsafe import require_unsafe
from tilewright.frontend.operands.operands import Operand, PointerOperand, TileOperand, TupleOperand
from tilewright.frontend.operands.tiles import (
    as_tile,
    broadcast_shape,
    broadcast_to,
    convert,
    shape_argument,
)
from tilewright.ir.ops.elementwise import NegI
from tilewright.ir.ops.memory import Offset
from tilewright.ir.ops.shape import Broadcast, Reshape

__all__ = [
    "broadcast_pointers",
    "offset_pointers",
    "reshape_pointers",
    "reshaped_pointers",
    "spread_pointers",
]


def offset_pointers(
    lo: Lowering, node: ast.AST, sign: ast.operator, left: Operand, right: Operand
) -> Operand:
    """`p + offset`, `offset + p` and `p - offset`."""
    require_unsafe(lo, node, "pointer arithmetic", "a pointer may leave its tensor")
    if isinstance(right, PointerOperand):
        left, right = right, left
        is_plain = isinstance(sign, ast.Add)
    else:
        is_plain = isinstance(sign, (ast.Add, ast.Sub))
    if not is_plain or not isinstance(left, PointerOperand) or isinstance(right, PointerOperand):
        reason = "a pointer is moved with `p + offset` or `p - offset`, and nothing else"
        lo.reject(WrongOperand, node, "arithmetic with pointers", reason)
    offset = as_tile(lo, node, right)
    if offset.dtype not in (i32, i64):
        way_out = "convert it: `.astype(i64)`"
        lo.reject(WrongOperand, node, "an offset is i32 or i64", f"this is {offset}", way_out)
    if isinstance(sign, ast.Sub):
        wide = convert(lo, offset, i64)  # the lowest i32 has no negation in i32
        offset = TileOperand(lo.builder.add(NegI(source=wide.value, dtype=i64)).result, i64)
    shape = broadcast_shape(left.shape, offset.shape)
    if shape is None:
        lo.reject(NotBroadcastable, node, "pointer arithmetic", left.shape, offset.shape)
    base = spread_pointers(lo, left, shape)
    return moved(lo, base, broadcast_to(lo, offset, shape))


def moved(lo: Lowering, pointers: PointerOperand, offset: TileOperand) -> PointerOperand:
    """Pointers moved by so many elements; the shapes are equal."""
    op = lo.builder.add(Offset(ptr=pointers.value, offset=offset.value))
    return PointerOperand(op.result, pointers.dtype)


def reshaped_pointers(
    lo: Lowering, pointers: PointerOperand, shape: tuple[int, ...]
) -> PointerOperand:
    """The same pointers in another shape."""
    if pointers.shape == shape:
        return pointers
    op = Reshape(source=pointers.value, to=pointers.type.with_shape(shape))
    return PointerOperand(lo.builder.add(op).result, pointers.dtype)


def spread_pointers(
    lo: Lowering, pointers: PointerOperand, shape: tuple[int, ...]
) -> PointerOperand:
    """Pointers broadcast along new axes and axes of extent one; the shapes must fit."""
    missing = len(shape) - len(pointers.shape)
    aligned = reshaped_pointers(lo, pointers, (1,) * missing + pointers.shape)
    if aligned.shape == shape:
        return aligned
    op = Broadcast(source=aligned.value, to=pointers.type.with_shape(shape))
    return PointerOperand(lo.builder.add(op).result, pointers.dtype)


# --- methods --------------------------------------------------------------------------------------


def _shape(lo: Lowering, call: Arguments) -> tuple[int, ...]:
    given = call.operands("shape")
    return shape_argument(lo, call.node, given[0] if len(given) == 1 else TupleOperand(given))


def reshape_pointers(lo: Lowering, pointers: PointerOperand, call: Arguments) -> Operand:
    """`p.reshape(…)`: the same number of pointers."""
    shape = _shape(lo, call)
    if prod(shape) != prod(pointers.shape):
        what = f"reshape of {pointers.shape} to {shape}"
        reason = f"{prod(pointers.shape)} pointers are not {prod(shape)}"
        lo.reject(WrongOperand, call.node, what, reason)
    return reshaped_pointers(lo, pointers, shape)


def broadcast_pointers(lo: Lowering, pointers: PointerOperand, call: Arguments) -> Operand:
    """`p.broadcast_to(…)`."""
    shape = _shape(lo, call)
    if broadcast_shape(pointers.shape, shape) != shape:
        lo.reject(NotBroadcastable, call.node, "broadcast_to", pointers.shape, shape)
    return spread_pointers(lo, pointers, shape)
