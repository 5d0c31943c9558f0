"""Statements without control flow: assignment, expressions, return."""

from __future__ import annotations

import ast
from typing import Any

from tilewright.check.errors.syntax import BadCall, Unsupported
from tilewright.check.errors.types import WrongOperand
from tilewright.frontend.control_flow import for_statement, if_statement
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands import Minted, Operand, Static, TileOperand, TupleOperand
from tilewright.frontend.operators import apply_binary

__all__ = ["STATEMENTS"]


def _assign(lo: Lowering, node: ast.Assign) -> None:
    operand = lo.expression(node.value)
    for target in node.targets:
        _bind(lo, target, operand)


def _annotated_assign(lo: Lowering, node: ast.AnnAssign) -> None:
    if node.value is None:
        lo.reject(Unsupported, node, "a declaration without a value", "give it a value")
    _bind(lo, node.target, lo.expression(node.value))


def _augmented_assign(lo: Lowering, node: ast.AugAssign) -> None:
    if not isinstance(node.target, ast.Name):
        lo.reject(
            Unsupported,
            node.target,
            "assignment into a value",
            "tiles are immutable: name the new one",
        )
    before = lo.expression(ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target))
    _bind(lo, node.target, apply_binary(lo, node, node.op, before, lo.expression(node.value)))


def _bind(lo: Lowering, target: ast.expr, operand: Operand) -> None:
    if isinstance(target, ast.Name):
        if isinstance(operand, TileOperand) and not operand.value.hint:
            operand.value.hint = target.id
        lo.frame.scope[target.id] = operand
    elif isinstance(target, ast.Tuple):
        _unpack(lo, target, operand)
    else:
        lo.reject(
            Unsupported,
            target,
            "assignment into a value",
            "tiles are immutable; an output is written with `.store(tile)`",
        )


def _unpack(lo: Lowering, target: ast.Tuple, operand: Operand) -> None:
    items: tuple[Operand, ...]
    if isinstance(operand, TupleOperand):
        items = operand.items
    elif isinstance(operand, Minted):
        items = operand.coordinates
    else:
        lo.reject(WrongOperand, target, "unpacking needs a tuple", f"this is a {operand.kind}")
    if len(items) != len(target.elts):
        lo.reject(
            WrongOperand,
            target,
            f"{len(target.elts)} names for {len(items)} values",
            "the numbers must be equal",
        )
    for name, item in zip(target.elts, items, strict=True):
        _bind(lo, name, item)


def _expression_statement(lo: Lowering, node: ast.Expr) -> None:
    if isinstance(node.value, ast.Constant):
        return  # a docstring
    lo.expression(node.value)


def _return(lo: Lowering, node: ast.Return) -> None:
    if lo.frame.block_depth:
        lo.reject(
            Unsupported,
            node,
            "`return` inside `if` or `for`",
            "assign the value in the branches and return it at the end",
        )
    is_kernel = not lo.frame.calls
    if is_kernel and node.value is not None:
        lo.reject(
            BadCall,
            node,
            f"kernel `{lo.signature.kernel}`",
            "a kernel returns nothing",
            "write results to a Mut or a Mapped with `.store(tile)`",
        )
    lo.frame.returned = Static(None) if node.value is None else lo.expression(node.value)


def _pass(_: Lowering, __: ast.Pass) -> None:
    return


# How each kind of statement is lowered.
STATEMENTS: dict[type[ast.stmt], Any] = {
    ast.AnnAssign: _annotated_assign,
    ast.Assign: _assign,
    ast.AugAssign: _augmented_assign,
    ast.Expr: _expression_statement,
    ast.For: for_statement,
    ast.If: if_statement,
    ast.Pass: _pass,
    ast.Return: _return,
}
