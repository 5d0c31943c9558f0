"""The table of statements, and the lowering of those without control flow."""

from __future__ import annotations

import ast
from typing import Any

from tilewright.check.errors.syntax import Unsupported
from tilewright.frontend.control.assertions import assert_statement
from tilewright.frontend.control.assignment import assign, refuse_target
from tilewright.frontend.control.blocks import with_statement
from tilewright.frontend.control.branches import if_statement
from tilewright.frontend.control.leaving import (
    break_statement,
    continue_statement,
    return_statement,
)
from tilewright.frontend.control.loops import for_statement, while_statement
from tilewright.frontend.expressions.operators import apply_binary
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.operands import LambdaOperand

__all__ = ["STATEMENTS"]


def _assign(lo: Lowering, node: ast.Assign) -> None:
    operand = lo.expression(node.value)
    for target in node.targets:
        assign(lo, target, operand)


def _annotated_assign(lo: Lowering, node: ast.AnnAssign) -> None:
    if node.value is None:
        lo.reject(Unsupported, node, "a declaration without a value", "give it a value")
    assign(lo, node.target, lo.expression(node.value))


def _augmented_assign(lo: Lowering, node: ast.AugAssign) -> None:
    if not isinstance(node.target, ast.Name):
        refuse_target(lo, node.target)
    before = lo.expression(ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target))
    assign(lo, node.target, apply_binary(lo, node, node.op, before, lo.expression(node.value)))


def _expression_statement(lo: Lowering, node: ast.Expr) -> None:
    if isinstance(node.value, ast.Constant):
        return  # a docstring
    lo.expression(node.value)


def _function(lo: Lowering, node: ast.FunctionDef) -> None:
    if node.decorator_list:
        way_out = "define it at module level"
        lo.reject(Unsupported, node.decorator_list[0], "a decorator inside a kernel", way_out)
    lo.frame.scope[node.name] = LambdaOperand(node, lo.frame)


def _pass(_: Lowering, __: ast.Pass) -> None:
    return


# Lowering of each kind of statement.
STATEMENTS: dict[type[ast.stmt], Any] = {
    ast.AnnAssign: _annotated_assign,
    ast.Assert: assert_statement,
    ast.Assign: _assign,
    ast.AugAssign: _augmented_assign,
    ast.Break: break_statement,
    ast.Continue: continue_statement,
    ast.Expr: _expression_statement,
    ast.For: for_statement,
    ast.FunctionDef: _function,
    ast.If: if_statement,
    ast.Pass: _pass,
    ast.Return: return_statement,
    ast.While: while_statement,
    ast.With: with_statement,
}
