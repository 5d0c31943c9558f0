"""The entry of the analysis: terms, conditions and scopes of a whole function."""

from __future__ import annotations

from tilewright.analysis.control_flow import CONTROL_RULES
from tilewright.analysis.dataflow import Dataflow, Rule
from tilewright.analysis.transfer import SCALAR_RULES
from tilewright.ir.function import Function
from tilewright.ir.op import Op

__all__ = ["RULES", "analyse"]

# Transfer functions; the integers of any other op are unbounded.
RULES: dict[type[Op], Rule] = {**SCALAR_RULES, **CONTROL_RULES}


def analyse(function: Function, *, asks_launch: bool = True) -> Dataflow:
    """Find the term of every scalar integer of a function, and the facts at each of its checks.

    With `asks_launch`, guarded code may assume that its axes are not empty, since a launch with an
    empty one runs another variant; without it the code is analysed with the axis empty.
    """
    flow = Dataflow(RULES, asks_launch=asks_launch)
    flow.run(function)
    return flow
