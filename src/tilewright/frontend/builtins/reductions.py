"""Reductions along an axis."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from tilewright.check.errors.types import NoSuchAxis, NotStatic, WrongOperand
from tilewright.dtypes import DType, bool_, limits
from tilewright.frontend.arguments import Arguments
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands import Operand, Static, TileOperand
from tilewright.frontend.tiles import as_tile, reshaped, signedness, static_int
from tilewright.ir.attributes import FloatIdentity, IntIdentity
from tilewright.ir.op import Block, Op, Value
from tilewright.ir.ops.control import Yield
from tilewright.ir.ops.elementwise import AddF, AddI, MaxF, MaxI, MinF, MinI
from tilewright.ir.ops.reduction import Reduce
from tilewright.ir.types import scalar

__all__ = ["MAXIMUM", "MINIMUM", "SUM", "Reduction", "reduction"]


@dataclass(frozen=True)
class Reduction:
    """How two elements combine, and what changes nothing."""

    name: str
    combine: Callable[[Value, Value, type[DType]], Op]
    identity: Callable[[type[DType]], float]


def _added(element: Value, total: Value, dtype: type[DType]) -> Op:
    return (AddF if dtype.element.is_float else AddI)(lhs=element, rhs=total, dtype=dtype)


def _greater(element: Value, best: Value, dtype: type[DType]) -> Op:
    if dtype.element.is_float:
        return MaxF(lhs=element, rhs=best, dtype=dtype)
    return MaxI(lhs=element, rhs=best, signedness=signedness(dtype), dtype=dtype)


def _lesser(element: Value, best: Value, dtype: type[DType]) -> Op:
    if dtype.element.is_float:
        return MinF(lhs=element, rhs=best, dtype=dtype)
    return MinI(lhs=element, rhs=best, signedness=signedness(dtype), dtype=dtype)


# Every element added up.
SUM = Reduction("tw.sum", _added, lambda _: 0)
# The greatest element; a NaN loses against a number.
MAXIMUM = Reduction("tw.max", _greater, lambda d: -math.inf if d.element.is_float else limits(d)[0])
# The least element; a NaN loses against a number.
MINIMUM = Reduction("tw.min", _lesser, lambda d: math.inf if d.element.is_float else limits(d)[1])


def reduction(kind: Reduction) -> Callable[[Lowering, Arguments], Operand]:
    """`tw.sum(x, axis=…, keepdims=…)` and its like."""

    def lower(lo: Lowering, call: Arguments) -> Operand:
        tile = as_tile(lo, call.where("x"), call.operand("x"))
        if tile.dtype is bool_:
            lo.reject(
                WrongOperand,
                call.where("x"),
                kind.name,
                "truth values are not numbers",
                "convert them: `.astype(i32)`",
            )
        keep = call.operand("keepdims")
        if not isinstance(keep, Static):
            lo.reject(NotStatic, call.where("keepdims"), "keepdims", str(keep))
        result = tile
        for axis in _axes(lo, call, tile):
            result = _reduced(lo, result, axis, kind)
        if not keep.value:
            return result
        axes = _axes(lo, call, tile)
        shape = tuple(1 if axis in axes else extent for axis, extent in enumerate(tile.shape))
        return reshaped(lo, result, shape)

    return lower


def _axes(lo: Lowering, call: Arguments, tile: TileOperand) -> tuple[int, ...]:
    """The axes to reduce, the last first, so that the others keep their numbers."""
    rank = len(tile.shape)
    operand = call.operand("axis")
    if isinstance(operand, Static) and operand.value is None:
        return tuple(reversed(range(rank)))
    axis = static_int(lo, call.where("axis"), operand, "the axis of a reduction")
    if not -rank <= axis < rank:
        lo.reject(NoSuchAxis, call.where("axis"), str(tile), axis, rank)
    return (axis % rank,)


def _reduced(lo: Lowering, tile: TileOperand, axis: int, kind: Reduction) -> TileOperand:
    element = tile.dtype.element
    arguments = (Value(scalar(element), tile.dtype), Value(scalar(element), tile.dtype))
    body = Block(arguments)
    with lo.builder.inside(body):
        combined = lo.builder.add(kind.combine(*arguments, tile.dtype)).results[0]
        lo.builder.add(Yield(values=(combined,)))
    number = kind.identity(tile.dtype)
    identity: FloatIdentity | IntIdentity
    if element.is_float:
        identity = FloatIdentity(element, float(number))
    else:
        identity = IntIdentity(element, int(number) & ((1 << element.bits) - 1))
    op = Reduce(
        sources=(tile.value,), dim=axis, identities=(identity,), body=body, dtype=tile.dtype
    )
    return TileOperand(lo.builder.add(op).totals[0], tile.dtype)
