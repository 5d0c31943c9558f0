"""Operators on numbers and tiles: Python's meaning, and nothing undefined.

`//` and `%` round down, a divisor that may be zero is checked, a shift by the width or more gives
zero (or the sign), comparisons with NaN are false except `!=`.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from tilewright.check.errors.bounds import DivisionByZero
from tilewright.check.errors.types import ConditionIsATile, WrongOperand
from tilewright.dtypes import bool_
from tilewright.frontend.builtins.matrix import matrix_product
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands import Operand, Static, TileOperand
from tilewright.frontend.tiles import (
    as_scalar,
    as_tile,
    broadcast_together,
    constant,
    is_static_number,
    signedness,
    unify,
)
from tilewright.ir.attributes import Ordering, Predicate
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
    Pow,
    RemF,
    Select,
    ShLI,
    ShRI,
    SubF,
    SubI,
    XOrI,
)
from tilewright.ir.ops.internal import DivisorCheck, FloorDiv, FloorMod

__all__ = [
    "apply_binary",
    "binary",
    "compare",
    "logical_and",
    "logical_not",
    "logical_or",
    "truth",
    "unary",
]

_PYTHON: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Pow: operator.pow, ast.BitAnd: operator.and_, ast.BitOr: operator.or_,
    ast.BitXor: operator.xor, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
}  # fmt: skip
_SIGNS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Pow: "**", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<",
    ast.RShift: ">>", ast.MatMult: "@", ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<",
    ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip


def binary(lo: Lowering, node: ast.BinOp) -> Operand:
    """`left op right`."""
    return apply_binary(lo, node, node.op, lo.expression(node.left), lo.expression(node.right))


def apply_binary(
    lo: Lowering, node: ast.AST, sign: ast.operator, left: Operand, right: Operand
) -> Operand:
    """One operator on two operands; numbers known now are computed now."""
    if isinstance(sign, ast.MatMult):
        return matrix_product(lo, node, left, right)
    if is_static_number(left) and is_static_number(right):
        return _static_binary(lo, node, sign, left, right)
    lhs, rhs = unify(lo, node, f"`{_SIGNS[type(sign)]}`", left, right)
    if isinstance(sign, (ast.LShift, ast.RShift)) and isinstance(right, Static):
        _check_shift(lo, node, lhs, right)
    rules = _FLOAT_RULES if lhs.dtype.element.is_float else _INTEGER_RULES
    if type(sign) not in rules:
        is_division = isinstance(sign, ast.Div)
        reason = "integers divide with `//`" if is_division else "there is no such operation"
        way_out = "or convert to float: `.astype(f32)`" if is_division else ""
        what = f"`{_SIGNS[type(sign)]}` on {lhs.dtype.label}"
        lo.reject(WrongOperand, node, what, reason, way_out)
    value = rules[type(sign)](lo, node, lhs, rhs)
    return TileOperand(value, lhs.dtype, lhs.weak and rhs.weak)


def _static_binary(
    lo: Lowering, node: ast.AST, sign: ast.operator, left: Operand, right: Operand
) -> Static:
    assert isinstance(left, Static)
    assert isinstance(right, Static)
    try:
        return Static(_PYTHON[type(sign)](left.value, right.value))
    except ZeroDivisionError:
        lo.reject(DivisionByZero, node)
    except (TypeError, ValueError, OverflowError) as error:
        lo.reject(WrongOperand, node, f"`{_SIGNS[type(sign)]}` on constants", str(error))


# --- one rule for each operator -------------------------------------------------------------------

Rule = Callable[[Lowering, ast.AST, TileOperand, TileOperand], Value]


def _simple(op: Callable[..., Op]) -> Rule:
    def rule(lo: Lowering, _: ast.AST, lhs: TileOperand, rhs: TileOperand) -> Value:
        return lo.builder.add(op(lhs=lhs.value, rhs=rhs.value, dtype=lhs.dtype)).results[0]

    return rule


def _integers_only(op: Callable[..., Op]) -> Rule:
    simple = _simple(op)

    def rule(lo: Lowering, node: ast.AST, lhs: TileOperand, rhs: TileOperand) -> Value:
        if lhs.dtype is bool_:
            lo.reject(
                WrongOperand,
                node,
                "arithmetic on bool",
                "truth values do not add up",
                "convert them: `.astype(i32)`",
            )
        return simple(lo, node, lhs, rhs)

    return rule


def _checked_division(op: Callable[..., Op]) -> Rule:
    divide = _simple(op)

    def rule(lo: Lowering, node: ast.AST, lhs: TileOperand, rhs: TileOperand) -> Value:
        checked = lo.builder.add(DivisorCheck(divisor=rhs.value, dtype=rhs.dtype)).result
        return divide(lo, node, lhs, TileOperand(checked, rhs.dtype))

    return rule


def _float_floor_division(lo: Lowering, _: ast.AST, lhs: TileOperand, rhs: TileOperand) -> Value:
    quotient = lo.builder.add(DivF(lhs=lhs.value, rhs=rhs.value)).result
    return lo.builder.add(Floor(source=quotient, dtype=lhs.dtype)).result


def _float_modulo(lo: Lowering, _: ast.AST, lhs: TileOperand, rhs: TileOperand) -> Value:
    """The remainder with the divisor's sign: Tile IR's has the dividend's."""
    add = lo.builder.add
    remainder = add(RemF(lhs=lhs.value, rhs=rhs.value, dtype=lhs.dtype)).result
    zero = lo.builder.constant(0.0, lhs.dtype.element, lhs.shape)
    less = Predicate.LESS_THAN
    negative = add(CmpF(lhs=remainder, rhs=zero, comparison_predicate=less)).result
    down = add(CmpF(lhs=rhs.value, rhs=zero, comparison_predicate=less)).result
    inexact = add(CmpF(lhs=remainder, rhs=zero, comparison_predicate=Predicate.NOT_EQUAL)).result
    differ = add(XOrI(lhs=negative, rhs=down)).result
    shifted = add(AddF(lhs=remainder, rhs=rhs.value, dtype=lhs.dtype)).result
    wrong = add(AndI(lhs=differ, rhs=inexact)).result
    return add(
        Select(cond=wrong, val_if_true=shifted, val_if_false=remainder, dtype=lhs.dtype)
    ).result


def _power(lo: Lowering, _: ast.AST, lhs: TileOperand, rhs: TileOperand) -> Value:
    return lo.builder.add(Pow(source=lhs.value, exponent=rhs.value, dtype=lhs.dtype)).result


def _shift_left(lo: Lowering, node: ast.AST, lhs: TileOperand, rhs: TileOperand) -> Value:
    """Bits moved up; the width or more moves them all out."""
    inside, amount = _shift_amount(lo, lhs, rhs)
    moved = lo.builder.add(ShLI(lhs=lhs.value, rhs=amount, dtype=lhs.dtype)).result
    zero = constant(lo, node, 0, lhs.dtype, lhs.shape).value
    choice = Select(cond=inside, val_if_true=moved, val_if_false=zero, dtype=lhs.dtype)
    return lo.builder.add(choice).result


def _shift_right(lo: Lowering, node: ast.AST, lhs: TileOperand, rhs: TileOperand) -> Value:
    """Bits moved down; the width or more leaves the sign (or zero)."""
    inside, amount = _shift_amount(lo, lhs, rhs)
    sign = signedness(lhs.dtype)
    moved = lo.builder.add(ShRI(lhs=lhs.value, rhs=amount, signedness=sign, dtype=lhs.dtype)).result
    if lhs.dtype.signed:
        return moved  # the amount is held at width - 1, which leaves the sign alone
    zero = constant(lo, node, 0, lhs.dtype, lhs.shape).value
    choice = Select(cond=inside, val_if_true=moved, val_if_false=zero, dtype=lhs.dtype)
    return lo.builder.add(choice).result


def _check_shift(lo: Lowering, node: ast.AST, lhs: TileOperand, amount: Static) -> None:
    width = lhs.dtype.element.bits
    if not 0 <= amount.value < width:
        lo.reject(
            WrongOperand, node, f"a shift of {lhs.dtype.label} by {amount.value}",
            f"a constant shift is between 0 and {width - 1}",
        )  # fmt: skip


def _shift_amount(lo: Lowering, lhs: TileOperand, rhs: TileOperand) -> tuple[Value, Value]:
    """Whether the amount is below the width (a negative one counts as large), and it held there."""
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
    ast.FloorDiv: _float_floor_division, ast.Mod: _float_modulo, ast.Pow: _power,
}  # fmt: skip
_INTEGER_RULES: dict[type[ast.operator], Rule] = {
    ast.Add: _integers_only(AddI), ast.Sub: _integers_only(SubI), ast.Mult: _integers_only(MulI),
    ast.FloorDiv: _checked_division(FloorDiv), ast.Mod: _checked_division(FloorMod),
    ast.BitAnd: _simple(AndI), ast.BitOr: _simple(OrI), ast.BitXor: _simple(XOrI),
    ast.LShift: _shift_left, ast.RShift: _shift_right,
}  # fmt: skip


# --- one operand ----------------------------------------------------------------------------------


def unary(lo: Lowering, node: ast.UnaryOp) -> Operand:
    """`-x`, `+x`, `~x`, `not x`."""
    operand = lo.expression(node.operand)
    if isinstance(node.op, ast.Not):
        return logical_not(lo, node, operand)
    if is_static_number(operand):
        assert isinstance(operand, Static)
        return Static(_STATIC_UNARY[type(node.op)](operand.value))
    tile = as_tile(lo, node, operand)
    if isinstance(node.op, ast.UAdd):
        return tile
    if isinstance(node.op, ast.USub):
        return _negated(lo, tile)
    return _inverted(lo, node, tile)


_STATIC_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert,
}  # fmt: skip


def _negated(lo: Lowering, tile: TileOperand) -> TileOperand:
    op = NegF if tile.dtype.element.is_float else NegI
    return TileOperand(
        lo.builder.add(op(source=tile.value, dtype=tile.dtype)).result, tile.dtype, tile.weak
    )


def _inverted(lo: Lowering, node: ast.AST, tile: TileOperand) -> TileOperand:
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


# --- comparison and logic -------------------------------------------------------------------------

_PREDICATES: dict[type[ast.cmpop], Predicate] = {
    ast.Eq: Predicate.EQUAL, ast.NotEq: Predicate.NOT_EQUAL, ast.Lt: Predicate.LESS_THAN,
    ast.LtE: Predicate.LESS_THAN_OR_EQUAL, ast.Gt: Predicate.GREATER_THAN,
    ast.GtE: Predicate.GREATER_THAN_OR_EQUAL,
}  # fmt: skip
_STATIC_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip


def compare(lo: Lowering, node: ast.Compare) -> Operand:
    """`a < b <= c`: each neighbouring pair, all of them true."""
    operands = [lo.expression(item) for item in (node.left, *node.comparators)]
    result: Operand | None = None
    for sign, left, right in zip(node.ops, operands, operands[1:], strict=False):
        one = _compared(lo, node, sign, left, right)
        result = one if result is None else logical_and(lo, node, result, one)
    assert result is not None
    return result


def _compared(
    lo: Lowering, node: ast.AST, sign: ast.cmpop, left: Operand, right: Operand
) -> Operand:
    if type(sign) not in _PREDICATES:
        lo.refuse(sign)
    if not isinstance(left, TileOperand) and not isinstance(right, TileOperand):
        return Static(bool(_STATIC_COMPARE[type(sign)](_static(left), _static(right))))
    lhs, rhs = unify(lo, node, f"`{_SIGNS[type(sign)]}`", left, right)
    predicate = _PREDICATES[type(sign)]
    if lhs.dtype.element.is_float:
        # NaN differs from everything, itself too; all other comparisons with it are false.
        ordering = Ordering.UNORDERED if predicate is Predicate.NOT_EQUAL else Ordering.ORDERED
        made: Op = CmpF(
            lhs=lhs.value, rhs=rhs.value, comparison_predicate=predicate,
            comparison_ordering=ordering, dtype=bool_,
        )  # fmt: skip
    else:
        sign_of = signedness(lhs.dtype)
        made = CmpI(
            lhs=lhs.value,
            rhs=rhs.value,
            comparison_predicate=predicate,
            signedness=sign_of,
            dtype=bool_,
        )
    return TileOperand(lo.builder.add(made).results[0], bool_)


def _static(operand: Operand) -> Any:
    """What a compile-time operand is compared by."""
    value = getattr(operand, "value", None)
    return (
        getattr(operand, "dtype", operand)
        if value is None and not isinstance(operand, Static)
        else value
    )


def truth(lo: Lowering, node: ast.AST, operand: Operand) -> Operand:
    """A condition: a constant, or one bool scalar; a number is true when it is not zero."""
    if isinstance(operand, Static):
        return Static(bool(operand.value))
    if isinstance(operand, TileOperand) and operand.shape:
        lo.reject(ConditionIsATile, node, operand.shape)
    tile = as_scalar(lo, node, operand, "a condition")
    if tile.dtype is bool_:
        return tile
    zero = constant(lo, node, 0, tile.dtype)
    return _compared(lo, node, ast.NotEq(), tile, zero)


def logical_not(lo: Lowering, node: ast.AST, operand: Operand) -> Operand:
    """`not x` on a truth value."""
    condition = truth(lo, node, operand)
    if isinstance(condition, Static):
        return Static(not condition.value)
    assert isinstance(condition, TileOperand)
    return _inverted(lo, node, condition)


def _combined(
    op: Callable[..., Op], static: Callable[[Any, Any], Any]
) -> Callable[[Lowering, ast.AST, Operand, Operand], Operand]:
    def combine(lo: Lowering, node: ast.AST, left: Operand, right: Operand) -> Operand:
        if isinstance(left, Static) and isinstance(right, Static):
            return Static(static(left.value, right.value))
        lhs = as_tile(lo, node, left, bool_)
        rhs = as_tile(lo, node, right, bool_)
        lhs, rhs = broadcast_together(lo, node, "`and`/`or`", lhs, rhs)
        made = op(lhs=lhs.value, rhs=rhs.value, dtype=bool_)
        return TileOperand(lo.builder.add(made).results[0], bool_)

    return combine


# Both conditions, element by element.
logical_and = _combined(AndI, lambda left, right: left and right)
# Either condition, element by element.
logical_or = _combined(OrI, lambda left, right: left or right)
