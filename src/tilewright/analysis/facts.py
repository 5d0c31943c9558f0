"""The entry of the analysis: terms, conditions and scopes of a whole function."""

from __future__ import annotations

from tilewright.analysis.control_flow import CONTROL_RULES
from tilewright.analysis.dataflow import Dataflow, Rule
from tilewright.analysis.transfer import SCALAR_RULES
from tilewright.ir.function import Function
from tilewright.ir.op import Op

__all__ = ["RULES", "analyse"]

# Every op that is followed; the integers of all others may be anything.
RULES: dict[type[Op], Rule] = {**SCALAR_RULES, **CONTROL_RULES}


def analyse(function: Function) -> Dataflow:
    """Find what every scalar integer of a function is, and what holds at each of its checks."""
    flow = Dataflow(RULES)
    flow.run(function)
    return flow
