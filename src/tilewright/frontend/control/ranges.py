"""`range(…)` as the bounds of a counted loop that cannot wrap.

Tile IR adds the step once more after the last iteration, so a step above one could make a 32-bit
counter wrap. Such a loop counts in 64 bits, unless its stop is a constant that leaves room. A
negative step counts up through the complements, `~i`, which every integer has: `range(a, b, -s)` is
`~j` for j in `range(~a, ~b, s)`.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from tilewright.check.errors.syntax import BadCall
from tilewright.dtypes import DType, i32, i64
from tilewright.frontend.calling.arguments import Place, spread
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.operands import Operand, Static, TileOperand
from tilewright.frontend.operands.tiles import as_index, convert
from tilewright.frontend.signature.specialization import MAX_EXTENT
from tilewright.ir.op import Value
from tilewright.ir.ops.elementwise import SubI
from tilewright.ir.ops.internal import StepCheck

__all__ = ["CountedRange", "counted_range"]

_ONE_TURN = 2**32  # a step from which no range of 32-bit integers has a second iteration


@dataclass(frozen=True, eq=False)
class CountedRange:
    """A counter from `lower` to below `upper`, and the loop variable as a function of it."""

    lower: Value
    upper: Value
    step: Value
    dtype: type[DType]  # of the counter
    is_down: bool

    def number(self, lo: Lowering, counter: Value) -> TileOperand:
        """The loop variable for a value of the counter."""
        narrow = convert(lo, TileOperand(counter, self.dtype), i32)
        return TileOperand(_complement(lo, narrow.value), i32) if self.is_down else narrow


def counted_range(lo: Lowering, call: ast.Call) -> CountedRange:
    """The counted loop of a call of `range`."""
    lower, upper, (where, step) = _arguments(lo, call)
    if not isinstance(step, Static):
        return _by_a_number(lo, call, (lower, upper), (where, step))
    return _by_a_constant(lo, call, (lower, upper), int(step.value))


def _by_a_constant(
    lo: Lowering, call: ast.Call, ends: tuple[Operand, Operand], step: int
) -> CountedRange:
    bounds = [as_index(lo, call, end) for end in ends]
    limit = ends[1].value if isinstance(ends[1], Static) else None
    is_down = step < 0
    if is_down:
        bounds = [_complement(lo, bound) for bound in bounds]
        limit = None if limit is None else ~limit
    step = min(abs(step), _ONE_TURN)
    has_room = limit is not None and limit - 1 + step <= MAX_EXTENT
    dtype = i32 if step == 1 or has_room else i64
    first, last = (convert(lo, TileOperand(bound, i32), dtype).value for bound in bounds)
    size = lo.builder.constant(step, dtype.element)
    return CountedRange(first, last, size, dtype, is_down)


def _by_a_number(
    lo: Lowering, call: ast.Call, ends: tuple[Operand, Operand], step: Place
) -> CountedRange:
    """A range with a dynamic step, which has to be above zero."""
    with lo.at(step[0]):
        number = as_index(lo, *step)
        checked = lo.builder.add(StepCheck(step=number, dtype=i32)).result
    first, last, size = (
        convert(lo, TileOperand(value, i32), i64).value
        for value in (*(as_index(lo, call, end) for end in ends), checked)
    )
    return CountedRange(first, last, size, i64, is_down=False)


def _arguments(lo: Lowering, call: ast.Call) -> tuple[Operand, Operand, Place]:
    places = spread(lo, call.args)
    if call.keywords or not 1 <= len(places) <= 3:
        lo.reject(BadCall, call, "range", "it takes a stop, or a start and a stop, and a step")
    where, step = places[2] if len(places) == 3 else (call, Static(1))
    if isinstance(step, Static) and (not isinstance(step.value, int) or step.value == 0):
        lo.reject(BadCall, call, "range", "the step is an integer and not zero")
    lower = places[0][1] if len(places) > 1 else Static(0)
    return lower, places[min(1, len(places) - 1)][1], (where, step)


def _complement(lo: Lowering, number: Value) -> Value:
    """`~number`, as a difference, which never wraps and whose interval is exact."""
    return lo.builder.add(SubI(lhs=lo.builder.index(-1), rhs=number, dtype=i32)).result
