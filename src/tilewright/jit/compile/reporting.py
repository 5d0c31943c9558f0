"""The form of report for a kernel with remaining checks.

`benchmarks/paper/checks.py` (docs/benchmarks.md) measures that clamping an index costs nothing, and
that reporting may. If a loop of matrix products fills the registers, the state of a report spills
and can halve the speed, while an audit kernel, which computes only the checked indices, costs a few
per cent. If registers are free, carrying the first failure to the end costs little and needs no
second launch.
"""

from __future__ import annotations

from tilewright.ir.function import Function
from tilewright.ir.op import Op
from tilewright.ir.ops.internal import BoundsCheck, DivisorCheck
from tilewright.ir.ops.reduction import MmaF, MmaI
from tilewright.ir.rewrite import is_loop
from tilewright.passes.report_form import ReportForm

__all__ = ["cheapest_report"]


def cheapest_report(function: Function) -> ReportForm:
    """The form that is close to the best: an audit for checked loops of matrix products."""
    if any(_multiplies_and_checks(op) for op in function.walk() if is_loop(op)):
        return ReportForm.AUDIT
    return ReportForm.AT_END


def _multiplies_and_checks(loop: Op) -> bool:
    inside = list(loop.walk())
    return any(isinstance(op, MmaF | MmaI) for op in inside) and any(
        isinstance(op, BoundsCheck | DivisorCheck) for op in inside
    )
