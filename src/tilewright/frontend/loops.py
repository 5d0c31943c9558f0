"""`for`: which loop it is, and the counted one."""

from __future__ import annotations

import ast

from tilewright.check.errors.syntax import Unsupported
from tilewright.frontend.carrying import LoopShape, run_loop
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands import Operand, PythonFunction, WalkRange
from tilewright.frontend.ranges import counted_range
from tilewright.frontend.walks import walk_loop
from tilewright.ir.op import Block, Value
from tilewright.ir.ops.control import For

__all__ = ["for_statement"]


def for_statement(lo: Lowering, node: ast.For) -> None:
    """`for i in range(…)` and `for at in z.indices()`."""
    if node.orelse:
        lo.reject(
            Unsupported, node.orelse[0], "`else` of a loop", "put the statements behind the loop"
        )
    if isinstance(node.iter, ast.Call):
        callee = lo.expression(node.iter.func)
        if isinstance(callee, PythonFunction) and callee.function is range:
            _counted_loop(lo, node, node.iter)
            return
    source = lo.expression(node.iter)
    if not isinstance(source, WalkRange):
        lo.reject(
            Unsupported,
            node.iter,
            f"a loop over {source}",
            "loops run over `range(…)` or `z.indices()`",
        )
    walk_loop(lo, node, source)


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
