"""Cost of a check in the kernel, by the form of its report, on the matrix product.

Not in the paper, whose system traps. A check here clamps, and reports in one of several forms; in
"shifted" kernels the checked index is shifted by a number read once, in "listed" ones every index
is read from a table, as in a real gather. The plain product needs no check; its twin trusts every
index. The cost of a check depends on the free registers, which the second table shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing
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
NONE, TWIN = "no check needed", "unchecked twin"
KINDS = {
    "shifted": (kernels.gemm_shifted, kernels.walked_shifted),
    "listed": (kernels.gemm_listed, kernels.walked_listed),
}


def _kernels(schedule: Schedule) -> dict[str, Any]:
    """The product without a check, and every kind of checked product in every form of report."""
    found = {
        NONE: schedule.kernel(kernels.gemm, kernels.walked, deny_checks=True),
        TWIN: schedule.kernel(kernels.gemm_unchecked, kernels.walked_unchecked),
    }
    for kind, functions in KINDS.items():
        for form in ReportForm:
            report = form.name.lower().replace("_", " ")
            found[f"{kind}, report: {report}"] = schedule.kernel(*functions, report=form)
    return found


class Forms:
    """The product by one schedule, in every form; all assemblers start at once."""

    def __init__(self, matrices: Matrices, schedule: Schedule, steps: tw.Tensor) -> None:
        self._matrices, self._schedule, self._steps = matrices, schedule, steps
        self._programs: dict[str, tuple[Future[Any], ...]] = {}
        self.candidates = [self._candidate(*one) for one in _kernels(schedule).items()]

    def _candidate(self, name: str, kernel: Any) -> Candidate:
        extra = () if name in {NONE, TWIN} else (self._steps,)
        cut = self._schedule.cut
        runs: list[Callable[[], Any]] = [
            lambda s=s: kernel(cut(s[0]), *s[1:], *extra) for s in self._matrices.sets
        ]
        with closing(runs[0]()) as first:
            self._programs[name] = first.programs
        return self._matrices.candidate(name, runs)

    def resources(self) -> Iterator[tuple[str, int, int]]:
        """Registers and bytes of stack of each assembled form, its kernel only."""
        for name, programs in self._programs.items():
            if not any(program.exception() for program in programs):
                parts = [one for program in programs for one in program.result().resources()]
                if parts:
                    most = max(parts, key=lambda one: one.registers)
                    yield name, most.registers, most.stack_bytes


def run(lab: Lab, report: Report) -> None:
    matrices = Matrices(lab, 64 if lab.is_quick else SIZE)
    steps = tw.from_numpy(np.arange(matrices.size // 64, dtype=np.int32), device=lab.device)
    rates: dict[str, dict[str, str]] = {}
    taken: dict[str, dict[str, str]] = {}
    for schedule in SMALL if lab.is_quick else SCHEDULES:
        forms = Forms(matrices, schedule, steps)
        found = compare(forms.candidates, timer=lab.timer(rounds=4, repetitions=15))
        for name, reason in found.failures.items():
            print(f"{schedule.name}, {name}: {reason}", flush=True)
        rates[schedule.name] = {
            name: f"{tflops(matrices.size, found.seconds(name)):.0f} ({found.speed(name):.2f})"
            for name in found.timings
        }
        resources = {name: numbers for name, *numbers in forms.resources()}
        taken[schedule.name] = {
            name: f"{registers} ({stack})" for name, (registers, stack) in resources.items()
        }
        report.figure(
            "checks", schedule=schedule.name, size=matrices.size, resources=resources,
            **found.to_json(),
        )  # fmt: skip
    title = f"TFLOP/s of the product of {matrices.size}, and as a fraction of the plain product"
    _show(title, rates, report)
    _show("Registers a thread, and bytes of its stack (spills)", taken, report)


def _show(title: str, columns: dict[str, dict[str, str]], report: Report) -> None:
    table = Table(title, ("form", *columns))
    for name in _kernels(SCHEDULES[0]):
        cells = [column.get(name, "") for column in columns.values()]
        if any(cells):
            table.add(name, *cells)
    if table.rows:
        print(table.to_text(), flush=True)
        report.table(table)
