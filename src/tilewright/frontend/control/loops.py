"""`for` and `while`: counted loops, and loops with a condition."""

from __future__ import annotations

import ast

from tilewright.check.errors.syntax import Unsupported
from tilewright.frontend.control.carrying import LoopShape, run_loop
from tilewright.frontend.control.frames import Arm, Departure, LoopExit
from tilewright.frontend.control.ranges import counted_range
from tilewright.frontend.control.sequences import branch
from tilewright.frontend.control.unrolling import unrolled_loop
from tilewright.frontend.control.walks import walk_loop
from tilewright.frontend.expressions.comparisons import truth
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.operands import (
    Operand,
    PythonFunction,
    Static,
    TileOperand,
    TupleOperand,
    WalkRange,
)
from tilewright.ir.op import Block, Value
from tilewright.ir.ops.control import Break, For

__all__ = ["for_statement", "while_statement"]


def for_statement(lo: Lowering, node: ast.For) -> None:
    """`for i in range(…)` and `for at in z.indices()`."""
    _refuse_else(lo, node)
    if isinstance(node.iter, ast.Call):
        callee = lo.expression(node.iter.func)
        if isinstance(callee, PythonFunction) and callee.function is range:
            _counted_loop(lo, node, node.iter)
            return
    source = lo.expression(node.iter)
    if isinstance(source, WalkRange):
        walk_loop(lo, node, source)
    elif isinstance(source, TupleOperand):
        unrolled_loop(lo, node, source.items)
    else:
        way_out = "loops run over `range(…)`, `z.indices()`, `tw.static_range(…)` or a tuple"
        lo.reject(Unsupported, node.iter, f"a loop over {source}", way_out)


def _counted_loop(lo: Lowering, node: ast.For, call: ast.Call) -> None:
    if not isinstance(node.target, ast.Name):
        lo.reject(
            Unsupported, node.target, "unpacking a loop counter", "name it: `for i in range(n):`"
        )
    bounds = counted_range(lo, call)
    name = node.target.id

    def enter(block: Block) -> Operand:
        counter = block.args[0]
        counter.hint = f"~{name}" if bounds.is_down else name
        number = bounds.number(lo, counter)
        number.value.hint = number.value.hint or name
        return number

    def leave(inits: tuple[Value, ...], block: Block) -> tuple[Value, ...]:
        op = For(
            lower_bound=bounds.lower, upper_bound=bounds.upper, step=bounds.step,
            init_values=inits, body=block,
        )  # fmt: skip
        return lo.builder.add(op).result_values

    run_loop(lo, node, LoopShape((bounds.dtype,), enter, leave))


def while_statement(lo: Lowering, node: ast.While) -> None:
    """`while condition:`, whose condition is computed before every iteration."""
    _refuse_else(lo, node)

    def enter(block: Block) -> None:
        condition = truth(lo, node.test, lo.expression(node.test))
        stop = Arm(Block(), dict(lo.frame.scope), Departure.JUMPED)
        if isinstance(condition, TileOperand):
            _end_loop(lo, node, stop.block)
            branch(lo, node, condition, Arm(Block(), dict(lo.frame.scope), None), stop)
        elif isinstance(condition, Static) and not condition.value:
            _end_loop(lo, node, block)
            lo.frame.left = Departure.JUMPED

    run_loop(lo, node, LoopShape((), enter))


def _end_loop(lo: Lowering, node: ast.While, block: Block) -> None:
    assert lo.frame.exits is not None
    lo.frame.exits.append(LoopExit(Break, node.test, block, dict(lo.frame.scope)))


def _refuse_else(lo: Lowering, node: ast.For | ast.While) -> None:
    if node.orelse:
        way_out = "put the statements behind the loop"
        lo.reject(Unsupported, node.orelse[0], "`else` of a loop", way_out)
