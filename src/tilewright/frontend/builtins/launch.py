"""The launch in a kernel: block indices, grid extents, preconditions."""

from __future__ import annotations

import ast

from tilewright.check.errors.bounds import FalseRequire
from tilewright.check.errors.syntax import BadCall, FalseAssertion
from tilewright.check.errors.types import NoSuchAxis, NotStatic, WrongOperand
from tilewright.dtypes import bool_, i32
from tilewright.frontend.calling.arguments import Arguments
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.operands import Operand, Static, TileOperand, TupleOperand
from tilewright.frontend.operands.tiles import as_tile, static_int
from tilewright.ir.ops.internal import Require
from tilewright.lang.integers import next_power_of_2

__all__ = [
    "lower_block_id",
    "lower_next_power_of_2",
    "lower_num_blocks",
    "lower_require",
    "lower_static_assert",
    "lower_static_range",
    "open_condition",
]


# Each iteration of an unrolled loop is code of its own; more would be slow to compile.
_MOST_TURNS = 1024


def _grid_axis(lo: Lowering, call: Arguments) -> int:
    axis = static_int(lo, call.where("axis"), call.operand("axis"), "an axis of the grid")
    if not 0 <= axis < lo.grid.rank:
        lo.reject(NoSuchAxis, call.where("axis"), "the grid", axis, lo.grid.rank)
    return axis


def lower_block_id(lo: Lowering, call: Arguments) -> Operand:
    """`tw.block_id(axis)`: the index in the logical grid."""
    return TileOperand(lo.grid.index[_grid_axis(lo, call)], i32)


def lower_num_blocks(lo: Lowering, call: Arguments) -> Operand:
    """`tw.num_blocks(axis)`: the extent of the logical grid."""
    return TileOperand(lo.grid.counts[_grid_axis(lo, call)], i32)


def lower_next_power_of_2(lo: Lowering, call: Arguments) -> Operand:
    """`tw.next_power_of_2(n)` of a compile-time number."""
    number = static_int(lo, call.where("n"), call.operand("n"), "the argument of next_power_of_2")
    return Static(next_power_of_2(number))


def lower_require(lo: Lowering, call: Arguments) -> Operand:
    """`tw.require(condition)`."""
    condition = open_condition(lo, call, "tw.require")
    if condition is not None:
        text = ast.unparse(call.where("condition"))
        lo.builder.add(Require(condition=condition.value, text=text))
    return Static(None)


def open_condition(lo: Lowering, call: Arguments, name: str) -> TileOperand | None:
    """The condition of a claim, or None if constants show that it holds."""
    where, operand = call.where("condition"), call.operand("condition")
    if isinstance(operand, Static):
        if not operand.value:
            lo.reject(FalseRequire, where, ast.unparse(where))
        return None
    condition = as_tile(lo, where, operand)
    if condition.dtype is not bool_ or condition.shape:
        lo.reject(WrongOperand, where, name, f"it takes one truth value; this is {condition}")
    return condition


def lower_static_assert(lo: Lowering, call: Arguments) -> Operand:
    """`tw.static_assert(condition, message)`."""
    operand = call.operand("condition")
    if not isinstance(operand, Static):
        lo.reject(
            NotStatic,
            call.where("condition"),
            "the condition of tw.static_assert",
            str(operand),
        )
    if not operand.value:
        message = call.operand("message")
        said = str(message.value) if isinstance(message, Static) and message.value else ""
        lo.reject(FalseAssertion, call.where("condition"), said or "the condition is false")
    return Static(None)


def lower_static_range(lo: Lowering, call: Arguments) -> Operand:
    """`tw.static_range(…)`: the numbers themselves, compile-time values in an unrolled loop."""
    what = "a bound of tw.static_range"
    start, stop = 0, static_int(lo, call.where("start"), call.operand("start"), what)
    if call.given("stop"):
        start, stop = stop, static_int(lo, call.where("stop"), call.operand("stop"), what)
    step = static_int(lo, call.where("step"), call.operand("step"), "the step of tw.static_range")
    if step == 0:
        lo.reject(BadCall, call.where("step"), "tw.static_range", "the step is not zero")
    numbers = range(start, stop, step)
    count = max(0, -((start - stop) // step))  # `len` is limited to 64 bits
    if count > _MOST_TURNS:
        reason = f"it has {count} numbers, and each is a turn of its own"
        lo.reject(BadCall, call.node, "tw.static_range", reason, "loop over `range(…)`")
    return TupleOperand(tuple(Static(number) for number in numbers))
