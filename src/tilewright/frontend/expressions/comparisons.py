"""Comparisons and logic: `==`, `<`, `not`, and the truth of a condition.

A comparison with NaN is false except `!=`. Constants (numbers, dtypes and tuples of them) are
compared at compile time. Chains (`a < b < c`) and `and`/`or`, which may skip a part, are in
`choice`.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from enum import Enum
from typing import Any

from tilewright.check.errors.types import ConditionIsATile, WrongOperand
from tilewright.dtypes import bool_
from tilewright.frontend.expressions.operators import inverted
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.abilities import check_computes
from tilewright.frontend.operands.operands import (
    DTypeOperand,
    Operand,
    Static,
    TileOperand,
    TupleOperand,
)
from tilewright.frontend.operands.tiles import (
    as_scalar,
    as_tile,
    broadcast_together,
    constant,
    signedness,
    unify,
)
from tilewright.ir.attributes import Ordering, Predicate
from tilewright.ir.op import Op
from tilewright.ir.ops.elementwise import AndI, CmpF, CmpI, OrI

__all__ = ["compared", "logical_and", "logical_not", "logical_or", "truth"]

_PREDICATES: dict[type[ast.cmpop], Predicate] = {
    ast.Eq: Predicate.EQUAL, ast.NotEq: Predicate.NOT_EQUAL, ast.Lt: Predicate.LESS_THAN,
    ast.LtE: Predicate.LESS_THAN_OR_EQUAL, ast.Gt: Predicate.GREATER_THAN,
    ast.GtE: Predicate.GREATER_THAN_OR_EQUAL,
}  # fmt: skip
_PYTHON: dict[type[ast.cmpop], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Eq: ("==", operator.eq), ast.NotEq: ("!=", operator.ne), ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le), ast.Gt: (">", operator.gt), ast.GtE: (">=", operator.ge),
}  # fmt: skip


def compared(
    lo: Lowering, node: ast.AST, sign: ast.cmpop, left: Operand, right: Operand
) -> Operand:
    """One comparison of two operands."""
    if isinstance(sign, (ast.Is, ast.IsNot)) and _is_none(right):
        return Static(_is_none(left) == isinstance(sign, ast.Is))
    if isinstance(sign, (ast.Is, ast.IsNot)) and _are_members(left, right):
        return Static((_member(left) is _member(right)) == isinstance(sign, ast.Is))
    if isinstance(sign, (ast.In, ast.NotIn)) and _is_known(left) and _is_known(right):
        return _contained(lo, node, sign, left, right)
    if type(sign) not in _PREDICATES:
        lo.refuse(sign, node)
    shown = f"`{_PYTHON[type(sign)][0]}`"
    if not isinstance(left, TileOperand) and not isinstance(right, TileOperand):
        return _compared_now(lo, node, sign, left, right)
    lhs, rhs = unify(lo, node, shown, left, right)
    check_computes(lo, node, shown, lhs.dtype)
    predicate = _PREDICATES[type(sign)]
    if lhs.dtype.element.is_float:
        # NaN differs from every number and itself; all other comparisons with it are false.
        ordering = Ordering.UNORDERED if predicate is Predicate.NOT_EQUAL else Ordering.ORDERED
        made: Op = CmpF(
            lhs=lhs.value, rhs=rhs.value, comparison_predicate=predicate,
            comparison_ordering=ordering, dtype=bool_,
        )  # fmt: skip
    else:
        made = CmpI(
            lhs=lhs.value, rhs=rhs.value, comparison_predicate=predicate,
            signedness=signedness(lhs.dtype), dtype=bool_,
        )  # fmt: skip
    return TileOperand(lo.builder.add(made).results[0], bool_)


def _is_none(operand: Operand) -> bool:
    return isinstance(operand, Static) and operand.value is None


def _member(operand: Operand) -> Enum | None:
    """The member of an enum behind a constant, if it is one."""
    return operand.member if isinstance(operand, Static) else None


def _are_members(*operands: Operand) -> bool:
    return all(_member(operand) is not None for operand in operands)


def _is_known(operand: Operand) -> bool:
    if isinstance(operand, TupleOperand):
        return all(map(_is_known, operand.items))
    return isinstance(operand, (Static, DTypeOperand))


def _contained(
    lo: Lowering, node: ast.AST, sign: ast.cmpop, left: Operand, right: Operand
) -> Static:
    """`MODE in ("fast", "exact")`, of compile-time values."""
    one, several = (_known(lo, node, "in", operand) for operand in (left, right))
    try:
        return Static((one in several) == isinstance(sign, ast.In))
    except TypeError as error:
        lo.reject(WrongOperand, node, "`in`", str(error))


def _compared_now(
    lo: Lowering, node: ast.AST, sign: ast.cmpop, left: Operand, right: Operand
) -> Static:
    shown, function = _PYTHON[type(sign)]
    values = [_known(lo, node, shown, operand) for operand in (left, right)]
    try:
        return Static(bool(function(*values)))
    except TypeError:
        lo.reject(WrongOperand, node, f"`{shown}`", f"{left} and {right} have no order")


def _known(lo: Lowering, node: ast.AST, shown: str, operand: Operand) -> Any:
    """The compile-time value of an operand for a comparison."""
    if isinstance(operand, Static):
        return operand.value
    if isinstance(operand, DTypeOperand):
        return operand.dtype
    if isinstance(operand, TupleOperand) and not any(
        isinstance(item, TileOperand) for item in operand.items
    ):
        return tuple(_known(lo, node, shown, item) for item in operand.items)
    if isinstance(operand, TupleOperand):
        reason, way_out = "this tuple holds values of the kernel", "compare item by item"
    else:
        reason, way_out = f"this is {operand}", ""
    lo.reject(WrongOperand, node, f"`{shown}` compares numbers, tiles and dtypes", reason, way_out)


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
    return compared(lo, node, ast.NotEq(), tile, zero)


def logical_not(lo: Lowering, node: ast.AST, operand: Operand) -> Operand:
    """`not x` on a truth value."""
    condition = truth(lo, node, operand)
    if isinstance(condition, Static):
        return Static(not condition.value)
    assert isinstance(condition, TileOperand)
    return inverted(lo, node, condition)


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


# Conjunction of truth values, of scalars or element by element; both sides are computed.
logical_and = _combined(AndI, lambda left, right: left and right)
# Disjunction of truth values, likewise.
logical_or = _combined(OrI, lambda left, right: left or right)
