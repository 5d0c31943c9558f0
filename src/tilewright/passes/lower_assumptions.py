"""Lowers the author's assumptions to those of Tile IR.

    before                      after
    assumption %c               %i = exti %c unsigned
                                assume bounded<1, 1>, %i

Tile IR has no assumption about a truth value, so it becomes one about a number; `check` has used it
as a fact before. The result has no use: runs after `drop_dead_code`.
"""

from __future__ import annotations

from tilewright.dtypes import Element
from tilewright.ir.attributes import Bounded, Signedness
from tilewright.ir.function import Function
from tilewright.ir.ops.control import Assume
from tilewright.ir.ops.elementwise import ExtI
from tilewright.ir.ops.internal import Assumption
from tilewright.ir.rewrite import Rewriter
from tilewright.ir.types import scalar

__all__ = ["lower_assumptions"]


def lower_assumptions(function: Function) -> Function:
    """Replace every assumption."""
    if not any(isinstance(op, Assumption) for op in function.walk()):
        return function
    return Rewriter({Assumption: _promise}).function(function)


def _promise(rewriter: Rewriter, op: Assumption) -> None:
    add, condition = rewriter.builder.add, rewriter.new(op.condition)
    number = ExtI(source=condition, to=scalar(Element.I32), signedness=Signedness.UNSIGNED)
    add(Assume(value=add(number).result, predicate=Bounded(1, 1)))
