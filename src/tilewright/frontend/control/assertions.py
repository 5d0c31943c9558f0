"""`assert condition, "message"`: reported by the kernel, without any other effect.

A false assertion stops nothing and proves nothing: the block runs on, and the condition is no fact
in the code after it.
"""

from __future__ import annotations

import ast

from tilewright.check.errors.types import WrongOperand
from tilewright.dtypes import bool_
from tilewright.frontend.expressions.comparisons import truth
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.operands import Static, TileOperand
from tilewright.frontend.operands.tiles import as_tile
from tilewright.ir.ops.internal import Assertion

__all__ = ["assert_statement"]


def assert_statement(lo: Lowering, node: ast.Assert) -> None:
    """Report a false condition, or a false element of a tile of conditions."""
    condition = lo.expression(node.test)
    if isinstance(condition, TileOperand) and condition.shape:
        if condition.dtype is not bool_:
            reason = f"it takes truth values; this is {condition}"
            lo.reject(WrongOperand, node.test, "`assert`", reason, "compare it: `assert t > 0`")
    else:
        condition = truth(lo, node.test, condition)
    message = ast.unparse(node.test) if node.msg is None else _message(lo, node.msg)
    if isinstance(condition, Static) and condition.value:
        return
    tile = as_tile(lo, node.test, condition, bool_)
    lo.builder.add(Assertion(condition=tile.value, message=f"assertion failed: {message}"))


def _message(lo: Lowering, node: ast.expr) -> str:
    message = lo.expression(node)
    if not isinstance(message, Static):
        reason = f"its message is text that is known when the kernel is compiled; this is {message}"
        lo.reject(WrongOperand, node, "`assert`", reason, "`print(…)` shows values of the kernel")
    return str(message.value)
