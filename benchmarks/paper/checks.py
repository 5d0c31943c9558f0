"""What a check that stays in the kernel costs, by the form of its report, on the matrix product.

Not in the paper, whose system traps. A check here clamps, and reports in one of several forms; in
"shifted" kernels the checked index is moved by a number read once, in "listed" ones every index is
read from a table, as in a real gather. The unchecked product needs none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import kernels
import numpy as np
from lab import Lab

import tilewright as tw
from paper.matrices import SCHEDULES, SMALL, Matrices, Schedule, tflops
from tilewright import ReportForm
from tilewright.bench import Candidate, Report, Table, compare

__all__ = ["TITLE", "run"]

TITLE = "Checks that stay in the kernel"
SIZE = 8192
NONE = "no check needed"
KINDS = {
    "shifted": (kernels.gemm_shifted, kernels.walked_shifted),
    "listed": (kernels.gemm_listed, kernels.walked_listed),
}


def _kernels(schedule: Schedule) -> dict[str, Any]:
    """The product without a check, and every kind of checked one in every form of report."""
    found = {NONE: schedule.kernel(kernels.gemm, kernels.walked, deny_checks=True)}
    for kind, functions in KINDS.items():
        for form in ReportForm:
            found[f"{kind}, {form.name}"] = schedule.kernel(*functions, report=form)
    return found


def _candidates(
    matrices: Matrices, schedule: Schedule, made: dict[str, Any], steps: tw.Tensor
) -> Iterator[Candidate]:
    for name, kernel in made.items():
        extra = () if name == NONE else (steps,)
        runs: list[Callable[[], Any]] = [
            lambda s=s, k=kernel, extra=extra: k(schedule.cut(s[0]), *s[1:], *extra)
            for s in matrices.sets
        ]
        runs[0]().close()  # all assemblers start now
        yield matrices.candidate(name, runs)


def run(lab: Lab, report: Report) -> None:
    matrices = Matrices(lab, 64 if lab.is_quick else SIZE)
    steps = tw.from_numpy(np.arange(matrices.size // 64, dtype=np.int32), device=lab.device)
    table = Table(
        f"TFLOP/s of the product of {matrices.size} by form of report, and of no check", ("form",)
    )
    columns: dict[str, dict[str, str]] = {}
    for schedule in SMALL if lab.is_quick else SCHEDULES:
        candidates = list(_candidates(matrices, schedule, _kernels(schedule), steps))
        found = compare(candidates, timer=lab.timer(rounds=4, repetitions=15))
        for name, reason in found.failures.items():
            print(f"{schedule.name}, {name}: {reason}", flush=True)
        columns[schedule.name] = {
            name: f"{tflops(matrices.size, found.seconds(name)):.0f} ({found.speed(name):.2f})"
            for name in found.timings
        }
        report.figure("checks", schedule=schedule.name, size=matrices.size, **found.to_json())
    table.columns = ("form", *columns)
    for name in _kernels(SCHEDULES[0]):
        table.add(name, *(column.get(name, "") for column in columns.values()))
    print(table.to_text(), flush=True)
    report.table(table)
