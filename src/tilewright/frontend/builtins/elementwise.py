"""Functions of each element: mathematics, extrema, choice."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from tilewright.check.errors.types import WrongOperand
from tilewright.dtypes import bool_
from tilewright.frontend.arguments import Arguments
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands import Operand, Static, TileOperand
from tilewright.frontend.operators import apply_binary
from tilewright.frontend.tiles import (
    as_tile,
    broadcast_together,
    is_static_number,
    signedness,
    unify,
)
from tilewright.ir.op import Op
from tilewright.ir.ops.elementwise import AbsF, AbsI, Fma, MaxF, MaxI, MinF, MinI, Select

__all__ = [
    "absolute",
    "extreme",
    "extremum",
    "floats",
    "lower_abs",
    "lower_cdiv",
    "lower_clamp",
    "lower_fma",
    "lower_where",
]

Lowers = Callable[[Lowering, Arguments], Operand]


def floats(op: type[Op]) -> Lowers:
    """A function of floats with one operand."""

    def lower(lo: Lowering, call: Arguments) -> Operand:
        tile = as_tile(lo, call.where("x"), call.operand("x"))
        if not tile.dtype.element.is_float:
            name = op.mnemonic
            lo.reject(
                WrongOperand,
                call.where("x"),
                f"tw.{name}",
                f"it takes floats; this is {tile}",
                "convert it: `.astype(f32)`",
            )
        made: Any = op(source=tile.value, dtype=tile.dtype)
        return TileOperand(lo.builder.add(made).results[0], tile.dtype)

    return lower


def absolute(lo: Lowering, tile: TileOperand) -> TileOperand:
    """The magnitude of every element; what has no sign stays as it is."""
    if not tile.dtype.signed:
        return tile
    op = AbsF if tile.dtype.element.is_float else AbsI
    return TileOperand(lo.builder.add(op(source=tile.value, dtype=tile.dtype)).result, tile.dtype)


def lower_abs(lo: Lowering, call: Arguments) -> Operand:
    """`tw.abs(x)`."""
    return absolute(lo, as_tile(lo, call.where("x"), call.operand("x")))


def extreme(
    lo: Lowering, node: ast.AST, what: str, pair: tuple[Operand, Operand], *, least: bool
) -> Operand:
    """The smaller or the larger of two operands; of two constants it is one too."""
    left, right = pair
    if is_static_number(left) and is_static_number(right):
        assert isinstance(left, Static)
        assert isinstance(right, Static)
        return Static((min if least else max)(left.value, right.value))
    lhs, rhs = unify(lo, node, what, left, right)
    if lhs.dtype.element.is_float:
        made: Op = (MinF if least else MaxF)(lhs=lhs.value, rhs=rhs.value, dtype=lhs.dtype)
    else:
        sign = signedness(lhs.dtype)
        made = (MinI if least else MaxI)(
            lhs=lhs.value, rhs=rhs.value, signedness=sign, dtype=lhs.dtype
        )
    return TileOperand(lo.builder.add(made).results[0], lhs.dtype, lhs.weak and rhs.weak)


def extremum(*, least: bool) -> Lowers:
    """`tw.minimum(a, b)` and `tw.maximum(a, b)`."""
    what = "tw.minimum" if least else "tw.maximum"

    def lower(lo: Lowering, call: Arguments) -> Operand:
        pair = call.operand("a"), call.operand("b")
        return extreme(lo, call.node, what, pair, least=least)

    return lower


def lower_clamp(lo: Lowering, call: Arguments) -> Operand:
    """`tw.clamp(x, low, high)`."""
    node, what = call.node, "tw.clamp"
    raised = extreme(lo, node, what, (call.operand("x"), call.operand("low")), least=False)
    return extreme(lo, node, what, (raised, call.operand("high")), least=True)


def lower_fma(lo: Lowering, call: Arguments) -> Operand:
    """`tw.fma(a, b, c)`."""
    a, b = unify(lo, call.node, "tw.fma", call.operand("a"), call.operand("b"))
    a, c = unify(lo, call.node, "tw.fma", a, call.operand("c"))
    a, b, c = broadcast_together(lo, call.node, "tw.fma", a, b, c)
    if not a.dtype.element.is_float:
        lo.reject(
            WrongOperand,
            call.node,
            "tw.fma",
            f"it takes floats; these are {a.dtype.label}",
            "write `a * b + c`",
        )
    op = Fma(lhs=a.value, rhs=b.value, acc=c.value, dtype=a.dtype)
    return TileOperand(lo.builder.add(op).result, a.dtype)


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
    if is_static_number(call.operand("x")) and is_static_number(call.operand("y")):
        lo.reject(
            WrongOperand, call.node, "tw.where", "two numbers have no dtype to give the result",
            "give one of them a dtype: `tw.where(condition, f32(1), 0)`",
        )  # fmt: skip
    x, y = unify(lo, call.node, "tw.where", call.operand("x"), call.operand("y"))
    condition, x, y = broadcast_together(lo, call.node, "tw.where", condition, x, y)
    op = Select(cond=condition.value, val_if_true=x.value, val_if_false=y.value, dtype=x.dtype)
    return TileOperand(lo.builder.add(op).result, x.dtype, x.weak and y.weak)


def lower_cdiv(lo: Lowering, call: Arguments) -> Operand:
    """`tw.cdiv(a, b)` is `(a + b - 1) // b`, written so that the sum cannot wrap: `-(-a // b)`."""
    for name in ("a", "b"):
        operand = call.operand(name)
        is_float = isinstance(operand, TileOperand) and operand.dtype.element.is_float
        if is_float or (isinstance(operand, Static) and isinstance(operand.value, float)):
            reason = f"it divides integers; this is {operand}"
            lo.reject(WrongOperand, call.where(name), "tw.cdiv", reason)
    negative = apply_binary(lo, call.node, ast.Sub(), Static(0), call.operand("a"))
    down = apply_binary(lo, call.node, ast.FloorDiv(), negative, call.operand("b"))
    return apply_binary(lo, call.node, ast.Sub(), Static(0), down)
