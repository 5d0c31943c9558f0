"""Arithmetic operators on numbers and tiles: Python's semantics, without undefined behaviour.

`//` and `%` round down, a divisor that may be zero is checked, a shift by the width or more gives
zero (or the sign). Comparisons and logic are in `comparisons`.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any, NoReturn

from tilewright.check.errors.bounds import DivisionByZero
from tilewright.check.errors.types import WrongOperand
from tilewright.dtypes import bool_
from tilewright.frontend.builtins.matrix import matrix_product
from tilewright.frontend.expressions.powers import power
from tilewright.frontend.lowering import LARGEST_CONSTANT, Lowering
from tilewright.frontend.memory.pointers import offset_pointers
from tilewright.frontend.operands.abilities import check_computes
from tilewright.frontend.operands.operands import Operand, PointerOperand, Static, TileOperand
from tilewright.frontend.operands.tiles import (
    as_tile,
    constant,
    is_static_number,
    signedness,
    unify,
)
from tilewright.ir.attributes import Predicate
from tilewright.ir.op import Op, Value
from tilewright.ir.ops.elementwise import (
    AddF,
    AddI,
    AndI,
    CmpF,
    CmpI,
    DivF,
    Floor,
    MinI,
    MulF,
    MulI,
    NegF,
    NegI,
    OrI,
    RemF,
    Select,
    ShLI,
    ShRI,
    SubF,
    SubI,
    XOrI,
)
from tilewright.ir.ops.internal import CeilDiv, DivisorCheck, FloorDiv, FloorMod

__all__ = ["apply_binary", "binary", "inverted", "quotient_up", "unary"]

_PYTHON: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Pow: operator.pow, ast.BitAnd: operator.and_, ast.BitOr: operator.or_,
    ast.BitXor: operator.xor, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
}  # fmt: skip
_SIGNS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Pow: "**", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<",
    ast.RShift: ">>",
}  # fmt: skip


def binary(lo: Lowering, node: ast.BinOp) -> Operand:
    """`left op right`."""
    return apply_binary(lo, node, node.op, lo.expression(node.left), lo.expression(node.right))


def apply_binary(
    lo: Lowering, node: ast.AST, sign: ast.operator, left: Operand, right: Operand
) -> Operand:
    """One operator on two operands; constants are folded."""
    if isinstance(sign, ast.MatMult):
        return matrix_product(lo, node, left, right)
    if isinstance(left, PointerOperand) or isinstance(right, PointerOperand):
        return offset_pointers(lo, node, sign, left, right)
    if is_static_number(left) and is_static_number(right):
        return _static_binary(lo, node, sign, left, right)
    if isinstance(sign, ast.Pow):
        return power(lo, node, left, right)
    shown = f"`{_SIGNS[type(sign)]}`"
    lhs, rhs = unify(lo, node, shown, left, right)
    check_computes(lo, node, shown, lhs.dtype)
    rules = _FLOAT_RULES if lhs.dtype.element.is_float else _INTEGER_RULES
    if type(sign) not in rules:
        _refuse_operator(lo, node, sign, lhs)
    if isinstance(sign, (ast.LShift, ast.RShift)) and isinstance(right, Static):
        _check_shift(lo, node, lhs, right)
    if rules is _INTEGER_RULES and type(sign) in _KNOWN_DIVISOR and isinstance(right, Static):
        _check_divisor(lo, node, right)
        rules = _KNOWN_DIVISOR
    value = rules[type(sign)](lo, node, lhs, rhs)
    return TileOperand(value, lhs.dtype, lhs.weak and rhs.weak)


def _refuse_operator(
    lo: Lowering, node: ast.AST, sign: ast.operator, tile: TileOperand
) -> NoReturn:
    what = f"`{_SIGNS[type(sign)]}` on {tile.dtype.label}"
    if isinstance(sign, ast.Div):
        way_out = "use `//`, or convert to floats: `.astype(f32)`"
        lo.reject(WrongOperand, node, what, "integers divide with `//`", way_out)
    lo.reject(WrongOperand, node, what, "only integers and truth values have bits")


def _static_binary(
    lo: Lowering, node: ast.AST, sign: ast.operator, left: Operand, right: Operand
) -> Static:
    assert isinstance(left, Static)
    assert isinstance(right, Static)
    if _grows_beyond_use(sign, left.value, right.value):
        reason = "the result would have thousands of digits"
        lo.reject(WrongOperand, node, f"`{_SIGNS[type(sign)]}` on constants", reason)
    try:
        return Static(_PYTHON[type(sign)](left.value, right.value))
    except ZeroDivisionError:
        lo.reject(DivisionByZero, node)
    except (TypeError, ValueError, OverflowError) as error:
        lo.reject(WrongOperand, node, f"`{_SIGNS[type(sign)]}` on constants", str(error))


def _grows_beyond_use(sign: ast.operator, left: float, right: float) -> bool:
    """Whether folding a constant would take too long."""
    if not (isinstance(left, int) and isinstance(right, int)) or right <= 0:
        return False
    if isinstance(sign, ast.LShift):
        return right > LARGEST_CONSTANT
    return isinstance(sign, ast.Pow) and left.bit_length() * right > LARGEST_CONSTANT


# --- one rule for each operator -------------------------------------------------------------------

Rule = Callable[[Lowering, ast.AST, TileOperand, TileOperand], Value]


def _simple(op: Callable[..., Op]) -> Rule:
    def rule(lo: Lowering, _: ast.AST, lhs: TileOperand, rhs: TileOperand) -> Value:
        return lo.builder.add(op(lhs=lhs.value, rhs=rhs.value, dtype=lhs.dtype)).results[0]

    return rule


def _refuse_bool(lo: Lowering, node: ast.AST, tile: TileOperand) -> None:
    if tile.dtype is bool_:
        lo.reject(
            WrongOperand, node, "arithmetic on bool", "truth values are not numbers",
            "convert them: `.astype(i32)`; combine them with `&`, `|`, `^`, `~`",
        )  # fmt: skip


def _integers_only(integer_rule: Rule) -> Rule:
    def rule(lo: Lowering, node: ast.AST, lhs: TileOperand, rhs: TileOperand) -> Value:
        _refuse_bool(lo, node, lhs)
        return integer_rule(lo, node, lhs, rhs)

    return rule


def _checked_division(op: Callable[..., Op]) -> Rule:
    divide = _simple(op)

    def rule(lo: Lowering, node: ast.AST, lhs: TileOperand, rhs: TileOperand) -> Value:
        checked = lo.builder.add(DivisorCheck(divisor=rhs.value, dtype=rhs.dtype)).result
        return divide(lo, node, lhs, TileOperand(checked, rhs.dtype))

    return rule


def _float_floor_division(lo: Lowering, _: ast.AST, lhs: TileOperand, rhs: TileOperand) -> Value:
    """The exact quotient rounded down, which the floor of a rounded quotient may miss.

    `1.0 // 0.1` is 9, though `1.0 / 0.1` rounds to 10. The dividend less the remainder, which is
    nearer to zero, has a whole quotient up to rounding: the nearest one, and one less where the
    remainder has the other sign. Division by zero is as in `/`.
    """
    add, dtype = lo.builder.add, lhs.dtype
    half, one, zero = (
        lo.builder.constant(number, dtype.element, lhs.shape) for number in (0.5, 1.0, 0.0)
    )
    remainder, is_opposed = _cut_remainder(lo, lhs, rhs)
    multiple = add(SubF(lhs=lhs.value, rhs=remainder, dtype=dtype)).result
    quotient = add(DivF(lhs=multiple, rhs=rhs.value, dtype=dtype)).result
    down = add(Floor(source=quotient, dtype=dtype)).result
    above = add(SubF(lhs=quotient, rhs=down, dtype=dtype)).result
    is_short = add(CmpF(lhs=above, rhs=half, comparison_predicate=Predicate.GREATER_THAN)).result
    up = add(AddF(lhs=down, rhs=one, dtype=dtype)).result
    nearest = add(Select(cond=is_short, val_if_true=up, val_if_false=down, dtype=dtype)).result
    less = add(SubF(lhs=nearest, rhs=one, dtype=dtype)).result
    floor = add(Select(cond=is_opposed, val_if_true=less, val_if_false=nearest, dtype=dtype)).result
    by_zero = add(CmpF(lhs=rhs.value, rhs=zero, comparison_predicate=Predicate.EQUAL)).result
    plain = add(DivF(lhs=lhs.value, rhs=rhs.value, dtype=dtype)).result
    return add(Select(cond=by_zero, val_if_true=plain, val_if_false=floor, dtype=dtype)).result


def _float_modulo(lo: Lowering, _: ast.AST, lhs: TileOperand, rhs: TileOperand) -> Value:
    """The remainder with the divisor's sign: Tile IR's has the dividend's."""
    add = lo.builder.add
    remainder, is_opposed = _cut_remainder(lo, lhs, rhs)
    shifted = add(AddF(lhs=remainder, rhs=rhs.value, dtype=lhs.dtype)).result
    return add(
        Select(cond=is_opposed, val_if_true=shifted, val_if_false=remainder, dtype=lhs.dtype)
    ).result


def _cut_remainder(lo: Lowering, lhs: TileOperand, rhs: TileOperand) -> tuple[Value, Value]:
    """Tile IR's remainder, and whether its sign differs from the divisor's."""
    add = lo.builder.add
    remainder = add(RemF(lhs=lhs.value, rhs=rhs.value, dtype=lhs.dtype)).result
    zero = lo.builder.constant(0.0, lhs.dtype.element, lhs.shape)
    less = Predicate.LESS_THAN
    negative = add(CmpF(lhs=remainder, rhs=zero, comparison_predicate=less)).result
    down = add(CmpF(lhs=rhs.value, rhs=zero, comparison_predicate=less)).result
    inexact = add(CmpF(lhs=remainder, rhs=zero, comparison_predicate=Predicate.NOT_EQUAL)).result
    differ = add(XOrI(lhs=negative, rhs=down)).result
    return remainder, add(AndI(lhs=differ, rhs=inexact)).result


def _shift_left(lo: Lowering, node: ast.AST, lhs: TileOperand, rhs: TileOperand) -> Value:
    """Left shift; by the width or more it gives zero."""
    inside, amount = _shift_amount(lo, lhs, rhs)
    moved = lo.builder.add(ShLI(lhs=lhs.value, rhs=amount, dtype=lhs.dtype)).result
    zero = constant(lo, node, 0, lhs.dtype, lhs.shape).value
    choice = Select(cond=inside, val_if_true=moved, val_if_false=zero, dtype=lhs.dtype)
    return lo.builder.add(choice).result


def _shift_right(lo: Lowering, node: ast.AST, lhs: TileOperand, rhs: TileOperand) -> Value:
    """Right shift; by the width or more it gives the sign (or zero)."""
    inside, amount = _shift_amount(lo, lhs, rhs)
    sign = signedness(lhs.dtype)
    moved = lo.builder.add(ShRI(lhs=lhs.value, rhs=amount, signedness=sign, dtype=lhs.dtype)).result
    if lhs.dtype.signed:
        return moved  # the amount is at most width - 1, which leaves the sign alone
    zero = constant(lo, node, 0, lhs.dtype, lhs.shape).value
    choice = Select(cond=inside, val_if_true=moved, val_if_false=zero, dtype=lhs.dtype)
    return lo.builder.add(choice).result


def _check_divisor(lo: Lowering, node: ast.AST, divisor: Static) -> None:
    """Refuse a constant divisor of zero; a constant needs no check."""
    if divisor.value == 0:
        lo.reject(DivisionByZero, node)


def _check_shift(lo: Lowering, node: ast.AST, lhs: TileOperand, amount: Static) -> None:
    width = lhs.dtype.element.bits
    if not 0 <= amount.value < width:
        lo.reject(
            WrongOperand, node, f"a shift of {lhs.dtype.label} by {amount.value}",
            f"a constant shift is between 0 and {width - 1}",
        )  # fmt: skip


def _shift_amount(lo: Lowering, lhs: TileOperand, rhs: TileOperand) -> tuple[Value, Value]:
    """Whether the amount is below the width (a negative one is large), and the amount clamped."""
    width = lhs.dtype.element.bits
    limit = lo.builder.constant(width - 1, rhs.dtype.element, rhs.shape)
    unsigned = signedness(bool_)
    below = CmpI(
        lhs=rhs.value,
        rhs=limit,
        comparison_predicate=Predicate.LESS_THAN_OR_EQUAL,
        signedness=unsigned,
    )
    held = MinI(lhs=rhs.value, rhs=limit, signedness=unsigned)
    return lo.builder.add(below).result, lo.builder.add(held).result


_FLOAT_RULES: dict[type[ast.operator], Rule] = {
    ast.Add: _simple(AddF), ast.Sub: _simple(SubF), ast.Mult: _simple(MulF), ast.Div: _simple(DivF),
    ast.FloorDiv: _float_floor_division, ast.Mod: _float_modulo,
}  # fmt: skip
_INTEGER_RULES: dict[type[ast.operator], Rule] = {
    ast.Add: _integers_only(_simple(AddI)), ast.Sub: _integers_only(_simple(SubI)),
    ast.Mult: _integers_only(_simple(MulI)),
    ast.FloorDiv: _integers_only(_checked_division(FloorDiv)),
    ast.Mod: _integers_only(_checked_division(FloorMod)),
    ast.BitAnd: _simple(AndI), ast.BitOr: _simple(OrI), ast.BitXor: _simple(XOrI),
    ast.LShift: _integers_only(_shift_left), ast.RShift: _integers_only(_shift_right),
}  # fmt: skip


_KNOWN_DIVISOR: dict[type[ast.operator], Rule] = {
    ast.FloorDiv: _integers_only(_simple(FloorDiv)),
    ast.Mod: _integers_only(_simple(FloorMod)),
}


def quotient_up(lo: Lowering, node: ast.AST, left: Operand, right: Operand) -> Operand:
    """`tw.cdiv(left, right)` of integers: the exact quotient, rounded up."""
    if is_static_number(left) and is_static_number(right):
        negative = _static_binary(lo, node, ast.Sub(), Static(0), left)
        down = _static_binary(lo, node, ast.FloorDiv(), negative, right)
        return Static(-down.value)
    lhs, rhs = unify(lo, node, "tw.cdiv", left, right)
    check_computes(lo, node, "tw.cdiv", lhs.dtype)
    divide = _checked_division(CeilDiv)
    if isinstance(right, Static):
        _check_divisor(lo, node, right)
        divide = _simple(CeilDiv)
    value = _integers_only(divide)(lo, node, lhs, rhs)
    return TileOperand(value, lhs.dtype, lhs.weak and rhs.weak)


# --- one operand ----------------------------------------------------------------------------------


def unary(lo: Lowering, node: ast.UnaryOp) -> Operand:
    """`-x`, `+x`, `~x`."""
    operand = lo.expression(node.operand)
    if isinstance(operand, Static) and _computable(operand, node.op):
        return Static(_STATIC_UNARY[type(node.op)](operand.value))
    tile = as_tile(lo, node, operand)
    if isinstance(node.op, ast.UAdd):
        return tile
    if isinstance(node.op, ast.USub):
        return _negated(lo, node, tile)
    return inverted(lo, node, tile)


def _computable(operand: Static, sign: ast.unaryop) -> bool:
    """Whether Python has this operator for a constant; `~` is for integers only."""
    return is_static_number(operand) and not (
        isinstance(sign, ast.Invert) and isinstance(operand.value, float)
    )


_STATIC_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg, ast.UAdd: operator.pos,
    ast.Invert: lambda value: ~operator.index(value),  # of a bool, which Python deprecates as such
}  # fmt: skip


def _negated(lo: Lowering, node: ast.AST, tile: TileOperand) -> TileOperand:
    check_computes(lo, node, "`-`", tile.dtype)
    _refuse_bool(lo, node, tile)
    op = NegF if tile.dtype.element.is_float else NegI
    return TileOperand(
        lo.builder.add(op(source=tile.value, dtype=tile.dtype)).result, tile.dtype, tile.weak
    )


def inverted(lo: Lowering, node: ast.AST, tile: TileOperand) -> TileOperand:
    """`~x`: every bit inverted."""
    check_computes(lo, node, "`~`", tile.dtype)
    if tile.dtype.element.is_float:
        lo.reject(
            WrongOperand, node, f"`~` on {tile.dtype.label}", "only integers have bits to turn"
        )
    ones = (
        1
        if tile.dtype is bool_
        else (-1 if tile.dtype.signed else (1 << tile.dtype.element.bits) - 1)
    )
    mask = constant(lo, node, ones, tile.dtype, tile.shape)
    op = XOrI(lhs=tile.value, rhs=mask.value, dtype=tile.dtype)
    return TileOperand(lo.builder.add(op).result, tile.dtype)
