"""`if`: both arms are lowered from the same names, and joined."""

from __future__ import annotations

import ast

from tilewright.frontend.control.sequences import arm, branch, statements
from tilewright.frontend.expressions.comparisons import truth
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.operands import Static, TileOperand

__all__ = ["if_statement"]


def if_statement(lo: Lowering, node: ast.If) -> None:
    """Lower a branch; a compile-time condition selects one arm."""
    condition = truth(lo, node.test, lo.expression(node.test))
    if isinstance(condition, Static):
        statements(lo, node.body if condition.value else node.orelse)
        return
    assert isinstance(condition, TileOperand)
    before = lo.frame.scope
    then = arm(lo, node.body, before)
    orelse = arm(lo, node.orelse, before)
    branch(lo, node, condition, then, orelse)
