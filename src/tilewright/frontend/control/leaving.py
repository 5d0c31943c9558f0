"""Jumps: `break`, `continue`, `return`, and their operands."""

from __future__ import annotations

import ast

from tilewright.check.errors.syntax import BadCall
from tilewright.frontend.calling.closures import closed
from tilewright.frontend.control.frames import RESULT, RETURNED, Departure, LoopExit
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.operands import Static
from tilewright.ir.ops.control import Break, Continue, Return

__all__ = ["break_statement", "continue_statement", "return_statement"]


def break_statement(lo: Lowering, node: ast.Break) -> None:
    """Leave the innermost loop."""
    _leave_loop(lo, node, Break)


def continue_statement(lo: Lowering, node: ast.Continue) -> None:
    """Continue with the next iteration of the innermost loop."""
    _leave_loop(lo, node, Continue)


def _leave_loop(lo: Lowering, node: ast.AST, jump: type[Break | Continue]) -> None:
    frame = lo.frame
    if frame.unrolled is not None:
        over = frame.unrolled.all_over if jump is Break else frame.unrolled.turn_over
        frame.scope[over] = Static(True)
        frame.left = Departure.SKIPPING
        return
    assert frame.exits is not None, "Python has checked that this stands in a loop"
    frame.exits.append(LoopExit(jump, node, lo.builder.block, dict(frame.scope)))
    frame.left = Departure.JUMPED


def return_statement(lo: Lowering, node: ast.Return) -> None:
    """End the kernel's block, or continue after the call of a helper with a value."""
    frame = lo.frame
    if not frame.is_inlined:
        if node.value is not None and not _is_none(node.value):
            way_out = "write results to a Mut or a Mapped with `.store(tile)`"
            lo.reject(BadCall, node, lo.signature.kernel, "a kernel returns nothing", way_out)
        lo.builder.add(Return())
        frame.left = Departure.JUMPED
        return
    result = Static(None) if node.value is None else lo.expression(node.value)
    frame.scope[RESULT] = closed(frame, result)
    frame.scope[RETURNED] = Static(True)
    if frame.exits is None:
        frame.left = Departure.SKIPPING
    else:
        exit_ = LoopExit(Break, node, lo.builder.block, dict(frame.scope), returns=True)
        frame.exits.append(exit_)
        frame.left = Departure.JUMPED


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
