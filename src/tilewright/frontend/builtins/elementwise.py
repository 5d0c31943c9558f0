"""Element-wise selection: extrema, `where`; and magnitudes."""

from __future__ import annotations

import ast
from typing import Any

from tilewright.check.errors.types import WrongOperand
from tilewright.dtypes import bool_
from tilewright.frontend.builtins.maths import check_floats
from tilewright.frontend.builtins.modifiers import are_usual, modified
from tilewright.frontend.calling.arguments import Arguments, Lowers
from tilewright.frontend.expressions.operators import quotient_up
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.abilities import check_computes
from tilewright.frontend.operands.operands import Operand, Static, TileOperand
from tilewright.frontend.operands.tiles import (
    as_tile,
    broadcast_together,
    chosen_numbers,
    is_static_number,
    signedness,
    unify,
)
from tilewright.ir.op import Op
from tilewright.ir.ops.elementwise import AbsF, AbsI, MaxF, MaxI, MinF, MinI, Select

__all__ = [
    "absolute",
    "extreme",
    "extremum",
    "lower_abs",
    "lower_cdiv",
    "lower_clamp",
    "lower_where",
]


def absolute(lo: Lowering, node: ast.AST, tile: TileOperand) -> TileOperand:
    """The magnitude of every element; unsigned ones stay unchanged."""
    check_computes(lo, node, "tw.abs", tile.dtype)
    if not tile.dtype.signed:
        return tile
    op = AbsF if tile.dtype.element.is_float else AbsI
    return TileOperand(lo.builder.add(op(source=tile.value, dtype=tile.dtype)).result, tile.dtype)


def lower_abs(lo: Lowering, call: Arguments) -> Operand:
    """`tw.abs(x)`."""
    return absolute(lo, call.node, as_tile(lo, call.where("x"), call.operand("x")))


def extreme(
    lo: Lowering, node: ast.AST, what: str, pair: tuple[Operand, Operand], *, least: bool
) -> Operand:
    """The smaller or the larger of two operands; for two constants a constant."""
    constant = _extreme_constant(*pair, least=least)
    if constant is not None:
        return constant
    lhs, rhs = _compared(lo, node, what, pair)
    op = _EXTREMA[lhs.dtype.element.is_float, least]
    made = lo.builder.add(op(**_operands(lhs, rhs)))
    return TileOperand(made.results[0], lhs.dtype, lhs.weak and rhs.weak)


_EXTREMA: dict[tuple[bool, bool], type[Op]] = {
    (True, True): MinF, (True, False): MaxF, (False, True): MinI, (False, False): MaxI,
}  # fmt: skip


def _extreme_constant(left: Operand, right: Operand, *, least: bool) -> Static | None:
    if not (is_static_number(left) and is_static_number(right)):
        return None
    assert isinstance(left, Static)
    assert isinstance(right, Static)
    return Static((min if least else max)(left.value, right.value))


def _compared(
    lo: Lowering, node: ast.AST, what: str, pair: tuple[Operand, Operand]
) -> tuple[TileOperand, TileOperand]:
    lhs, rhs = unify(lo, node, what, *pair)
    check_computes(lo, node, what, lhs.dtype)
    return lhs, rhs


def _operands(lhs: TileOperand, rhs: TileOperand) -> dict[str, Any]:
    fields: dict[str, Any] = {"lhs": lhs.value, "rhs": rhs.value, "dtype": lhs.dtype}
    if lhs.dtype.element.is_integer:
        fields["signedness"] = signedness(lhs.dtype)
    return fields


def extremum(*, least: bool) -> Lowers:
    """`tw.minimum(a, b)` and `tw.maximum(a, b)`."""
    what = "tw.minimum" if least else "tw.maximum"

    def lower(lo: Lowering, call: Arguments) -> Operand:
        pair = call.operand("a"), call.operand("b")
        if are_usual(call):
            return extreme(lo, call.node, what, pair, least=least)
        lhs, rhs = _compared(lo, call.node, what, pair)
        check_floats(lo, call.node, f"{what} with nan= or ftz=", lhs)
        op = _EXTREMA[True, least]
        made = modified(lo, call, op, **_operands(lhs, rhs))
        return TileOperand(made.results[0], lhs.dtype)

    return lower


def lower_clamp(lo: Lowering, call: Arguments) -> Operand:
    """`tw.clamp(x, low, high)`."""
    node, what = call.node, "tw.clamp"
    raised = extreme(lo, node, what, (call.operand("x"), call.operand("low")), least=False)
    return extreme(lo, node, what, (raised, call.operand("high")), least=True)


def lower_where(lo: Lowering, call: Arguments) -> Operand:
    """`tw.where(condition, x, y)`."""
    condition = as_tile(lo, call.where("condition"), call.operand("condition"), bool_)
    if condition.dtype is not bool_:
        lo.reject(
            WrongOperand,
            call.where("condition"),
            "tw.where",
            f"the condition is bool; this is {condition}",
            "compare it: `x != 0`",
        )
    left, right = call.operand("x"), call.operand("y")
    if isinstance(left, Static) and isinstance(right, Static) and _are_numbers(left, right):
        return chosen_numbers(lo, call.node, condition, (left.value, right.value))
    x, y = unify(lo, call.node, "tw.where", left, right)
    condition, x, y = broadcast_together(lo, call.node, "tw.where", condition, x, y)
    op = Select(cond=condition.value, val_if_true=x.value, val_if_false=y.value, dtype=x.dtype)
    return TileOperand(lo.builder.add(op).result, x.dtype, x.weak and y.weak)


def _are_numbers(*operands: Operand) -> bool:
    return all(map(is_static_number, operands))


def lower_cdiv(lo: Lowering, call: Arguments) -> Operand:
    """`tw.cdiv(a, b)`."""
    for name in ("a", "b"):
        operand = call.operand(name)
        is_float = isinstance(operand, TileOperand) and operand.dtype.element.is_float
        if is_float or (isinstance(operand, Static) and isinstance(operand.value, float)):
            reason = f"it divides integers; this is {operand}"
            lo.reject(WrongOperand, call.where(name), "tw.cdiv", reason)
    return quotient_up(lo, call.node, call.operand("a"), call.operand("b"))
