"""`x ** y`: floats by the op of the GPU, integers by squaring, modulo the width.

An integer to a negative power is no integer: a negative constant is refused, and a negative dynamic
exponent gives 0.
"""

from __future__ import annotations

import ast

from tilewright.check.errors.types import MixedDTypes, WrongOperand
from tilewright.dtypes import DType, bool_, i32
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.abilities import check_computes
from tilewright.frontend.operands.operands import Operand, Static, TileOperand
from tilewright.frontend.operands.tiles import (
    as_tile,
    broadcast_together,
    constant,
    convert,
    signedness,
    unify,
)
from tilewright.ir.attributes import Predicate, Signedness
from tilewright.ir.op import Block, Op, Value
from tilewright.ir.ops.control import Continue, For
from tilewright.ir.ops.elementwise import (
    AndI,
    CmpI,
    FPowI,
    MulF,
    MulI,
    Pow,
    Select,
    ShRI,
)
from tilewright.ir.types import scalar

__all__ = ["power"]

_WHAT = "`**`"


def power(lo: Lowering, node: ast.AST, base: Operand, exponent: Operand) -> Operand:
    """`base ** exponent`, at least one of which is a tile."""
    number = exponent.value if isinstance(exponent, Static) else None
    if isinstance(number, int) and isinstance(base, TileOperand):
        if base.dtype.element.is_integer:
            return _constant_power(lo, node, base, number)
        if number == 2 and not isinstance(number, bool):
            check_computes(lo, node, _WHAT, base.dtype)
            return TileOperand(_multiplied(lo, base.value, base.value, base.dtype), base.dtype)
    if _is_integer_tile(exponent) and isinstance(base, TileOperand) and not base.weak:
        assert isinstance(exponent, TileOperand)
        if base.dtype.element.is_float and not exponent.weak:
            return _whole_power(lo, node, base, exponent)
    lhs, rhs = unify(lo, node, _WHAT, base, exponent)
    check_computes(lo, node, _WHAT, lhs.dtype)
    if lhs.dtype.element.is_float:
        made = Pow(source=lhs.value, exponent=rhs.value, dtype=lhs.dtype)
        return TileOperand(lo.builder.add(made).result, lhs.dtype, lhs.weak and rhs.weak)
    _refuse_bool(lo, node, lhs.dtype)
    return TileOperand(_integer_power(lo, node, lhs, rhs), lhs.dtype, lhs.weak and rhs.weak)


def _is_integer_tile(operand: Operand) -> bool:
    return isinstance(operand, TileOperand) and operand.dtype.element.is_integer


def _refuse_bool(lo: Lowering, node: ast.AST, dtype: type[DType]) -> None:
    if dtype is bool_:
        way_out = "convert them: `.astype(i32)`"
        lo.reject(WrongOperand, node, "`**` on bool", "truth values are not numbers", way_out)


def _whole_power(
    lo: Lowering, node: ast.AST, base: TileOperand, exponent: TileOperand
) -> TileOperand:
    """A float to the power of an integer that fits i32."""
    check_computes(lo, node, _WHAT, base.dtype)
    check_computes(lo, node, _WHAT, exponent.dtype)
    dtype = exponent.dtype
    if dtype.element.bits > i32.element.bits - (not dtype.signed):
        lo.reject(MixedDTypes, node, _WHAT, base.dtype.label, dtype.label)
    base, exponent = broadcast_together(lo, node, _WHAT, base, convert(lo, exponent, i32))
    op = FPowI(source=base.value, exponent=exponent.value, dtype=base.dtype)
    return TileOperand(lo.builder.add(op).result, base.dtype)


def _multiplied(lo: Lowering, lhs: Value, rhs: Value, dtype: type[DType]) -> Value:
    op: type[MulF | MulI] = MulF if dtype.element.is_float else MulI
    return lo.builder.add(op(lhs=lhs, rhs=rhs, dtype=dtype)).result


def _constant_power(lo: Lowering, node: ast.AST, base: TileOperand, exponent: int) -> TileOperand:
    """An integer to a constant power, by squarings and products."""
    check_computes(lo, node, _WHAT, base.dtype)
    _refuse_bool(lo, node, base.dtype)
    if exponent < 0:
        lo.reject(
            WrongOperand, node, f"`**` of {base.dtype.label} with {exponent}",
            "an integer to a negative power is no integer", "convert to floats: `.astype(f32)`",
        )  # fmt: skip
    as_tile(lo, node, Static(exponent), base.dtype)  # checks that it fits
    result = constant(lo, node, 1, base.dtype, base.shape).value
    square = base.value
    for place in range(exponent.bit_length()):
        if exponent >> place & 1:
            result = square if place == 0 else _multiplied(lo, result, square, base.dtype)
        if exponent >> place > 1:
            square = _multiplied(lo, square, square, base.dtype)
    return TileOperand(result, base.dtype, base.weak)


def _integer_power(lo: Lowering, node: ast.AST, base: TileOperand, exponent: TileOperand) -> Value:
    """Square and multiply, in a loop with an iteration for each bit of the exponent."""
    dtype, build = base.dtype, lo.builder
    one = constant(lo, node, 1, dtype, base.shape).value
    counter = Value(scalar(i32.element), i32)
    args = (counter, *(Value(base.type, dtype) for _ in range(3)))
    with build.inside(Block(args)) as body:
        _, result, square, rest = args
        zero = build.constant(0, dtype.element, base.shape, dtype)
        unit = build.constant(1, dtype.element, base.shape, dtype)
        low = _added(lo, AndI(lhs=rest, rhs=unit, dtype=dtype))
        is_set = _compared(lo, low, Predicate.NOT_EQUAL, zero)
        product = _multiplied(lo, result, square, dtype)
        result = _chosen(lo, is_set, product, result, dtype)
        square = _multiplied(lo, square, square, dtype)
        unsigned = Signedness.UNSIGNED
        rest = _added(lo, ShRI(lhs=rest, rhs=unit, signedness=unsigned, dtype=dtype))
        build.add(Continue(values=(result, square, rest)))
    first, last, step = (build.index(number) for number in (0, dtype.element.bits, 1))
    loop = For(
        lower_bound=first, upper_bound=last, step=step,
        init_values=(one, base.value, exponent.value), body=body,
    )  # fmt: skip
    result = build.add(loop).result_values[0]
    result.dtype = dtype
    if not dtype.signed:
        return result
    zero = build.constant(0, dtype.element, base.shape, dtype)
    is_negative = _compared(lo, exponent.value, Predicate.LESS_THAN, zero)
    return _chosen(lo, is_negative, zero, result, dtype)


def _added(lo: Lowering, op: Op) -> Value:
    return lo.builder.add(op).results[0]


def _compared(lo: Lowering, lhs: Value, predicate: Predicate, rhs: Value) -> Value:
    signed = signedness(i32)
    return _added(
        lo, CmpI(lhs=lhs, rhs=rhs, comparison_predicate=predicate, signedness=signed, dtype=bool_)
    )


def _chosen(lo: Lowering, condition: Value, yes: Value, no: Value, dtype: type[DType]) -> Value:
    return _added(lo, Select(cond=condition, val_if_true=yes, val_if_false=no, dtype=dtype))
