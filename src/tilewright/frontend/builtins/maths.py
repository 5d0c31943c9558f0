"""Element-wise mathematics, and arithmetic with modifiers."""

from __future__ import annotations

import ast
from typing import Any

from tilewright.check.errors.types import WrongOperand
from tilewright.dtypes import bool_
from tilewright.frontend.builtins.modifiers import are_usual, modified
from tilewright.frontend.calling.arguments import Arguments, Lowers
from tilewright.frontend.expressions.operators import apply_binary
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.abilities import check_computes
from tilewright.frontend.operands.operands import Operand, Static, TileOperand
from tilewright.frontend.operands.tiles import as_tile, broadcast_together, is_power_of_two, unify
from tilewright.ir.attributes import Predicate
from tilewright.ir.op import Op, Value
from tilewright.ir.ops.elementwise import Atan2, CmpI, Fma, Log2, MulHiI, Select, SubI

__all__ = [
    "arithmetic",
    "check_floats",
    "floats",
    "lower_atan2",
    "lower_fma",
    "lower_log2",
    "lower_mulhi",
    "lower_pow",
]


def check_floats(lo: Lowering, node: ast.AST, what: str, tile: TileOperand) -> None:
    """Refuse an operand that is no float."""
    check_computes(lo, node, what, tile.dtype)
    if not tile.dtype.element.is_float:
        reason = f"it takes floats; this is {tile}"
        lo.reject(WrongOperand, node, what, reason, "convert it: `.astype(f32)`")


def floats(op: type[Op]) -> Lowers:
    """The lowering of a float function with one operand and the modifiers of its op."""
    name = f"tw.{op.mnemonic}"

    def lower(lo: Lowering, call: Arguments) -> Operand:
        tile = as_tile(lo, call.where("x"), call.operand("x"))
        check_floats(lo, call.where("x"), name, tile)
        made = modified(lo, call, op, source=tile.value, dtype=tile.dtype)
        return TileOperand(made.results[0], tile.dtype)

    return lower


def lower_log2(lo: Lowering, call: Arguments) -> Operand:
    """`tw.log2(x)`; for a compile-time power of two a compile-time integer."""
    operand = call.operand("x")
    number = operand.value if isinstance(operand, Static) else None
    if isinstance(number, int) and not isinstance(number, bool) and is_power_of_two(number):
        return Static(number.bit_length() - 1)
    return _log2(lo, call)


_log2 = floats(Log2)


def lower_fma(lo: Lowering, call: Arguments) -> Operand:
    """`tw.fma(a, b, c)`."""
    a, b = unify(lo, call.node, "tw.fma", call.operand("a"), call.operand("b"))
    a, c = unify(lo, call.node, "tw.fma", a, call.operand("c"))
    a, b, c = broadcast_together(lo, call.node, "tw.fma", a, b, c)
    if a.dtype.element.is_integer:
        reason = f"it takes floats; these are {a.dtype.label}"
        lo.reject(WrongOperand, call.node, "tw.fma", reason, "write `a * b + c`")
    check_floats(lo, call.node, "tw.fma", a)
    made = modified(lo, call, Fma, lhs=a.value, rhs=b.value, acc=c.value, dtype=a.dtype)
    return TileOperand(made.result, a.dtype)


def arithmetic(sign: ast.operator, op: type[Op]) -> Lowers:
    """`tw.add(a, b)` and the like: the operator, with modifiers for floats."""

    def lower(lo: Lowering, call: Arguments) -> Operand:
        a, b = call.operand("a"), call.operand("b")
        if are_usual(call):
            return apply_binary(lo, call.node, sign, a, b)
        lhs, rhs = unify(lo, call.node, "this arithmetic", a, b)
        check_floats(lo, call.node, "arithmetic that rounds", lhs)
        made = modified(lo, call, op, lhs=lhs.value, rhs=rhs.value, dtype=lhs.dtype)
        return TileOperand(made.results[0], lhs.dtype)

    return lower


def lower_pow(lo: Lowering, call: Arguments) -> Operand:
    """`tw.pow(x, y)` is `x ** y`."""
    return apply_binary(lo, call.node, ast.Pow(), call.operand("x"), call.operand("y"))


def lower_atan2(lo: Lowering, call: Arguments) -> Operand:
    """`tw.atan2(y, x)`."""
    y, x = unify(lo, call.node, "tw.atan2", call.operand("y"), call.operand("x"))
    check_floats(lo, call.node, "tw.atan2", y)
    # Tile IR's first operand is the numerator, despite its name.
    op = Atan2(x=y.value, y=x.value, dtype=y.dtype)
    return TileOperand(lo.builder.add(op).result, y.dtype)


def lower_mulhi(lo: Lowering, call: Arguments) -> Operand:
    """`tw.mulhi(a, b)`."""
    a, b = unify(lo, call.node, "tw.mulhi", call.operand("a"), call.operand("b"))
    check_computes(lo, call.node, "tw.mulhi", a.dtype)
    if a.dtype.element.is_float or a.dtype is bool_:
        reason = f"it takes integers; these are {a.dtype.label}"
        lo.reject(WrongOperand, call.node, "tw.mulhi", reason)
    high = lo.builder.add(MulHiI(x=a.value, y=b.value, dtype=a.dtype)).result
    if a.dtype.signed:
        # Read as unsigned, a negative factor is 2**bits too large.
        high = _less_where_negative(lo, high, a, b)
        high = _less_where_negative(lo, high, b, a)
    return TileOperand(high, a.dtype)


def _less_where_negative(
    lo: Lowering, total: Value, sign: TileOperand, amount: TileOperand
) -> Value:
    add: Any = lo.builder.add
    zero = lo.builder.constant(0, sign.dtype.element, sign.shape)
    below = Predicate.LESS_THAN
    negative = add(CmpI(lhs=sign.value, rhs=zero, comparison_predicate=below)).result
    taken = add(Select(cond=negative, val_if_true=amount.value, val_if_false=zero)).result
    less: Value = add(SubI(lhs=total, rhs=taken, dtype=sign.dtype)).result
    return less
