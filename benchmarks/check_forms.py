"""What a residual check costs by the form of its report, on the products of `gemm.py`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import kernels
from gemm import LIMIT, Matrices, Schedule, tflops
from harness import Candidate, Report, Table, Timer, compare

import tilewright as tw
from tilewright import ReportForm

__all__ = ["SCHEDULES", "check_kernels", "measure_checks"]

SCHEDULES = (
    Schedule("plain 128x128x64", (128, 128)),
    Schedule("persistent 128x128x64, 4 warps", (128, 128), True, 132, (("num_worker_warps", 4),)),
    Schedule(
        "persistent 256x256x64, 2 CTAs, 8 warps", (256, 256), True, 66,
        (("num_ctas", 2), ("num_worker_warps", 8)),
    ),
)  # fmt: skip
_KINDS = {
    "shifted": (kernels.gemm_shifted, kernels.walked_shifted),
    "listed": (kernels.gemm_listed, kernels.walked_listed),
}


def check_kernels(schedule: Schedule) -> dict[str, Any]:
    """The unchecked kernel, and every kind of checked one in every form of report."""
    unchecked = kernels.walked if schedule.walked else kernels.gemm
    found = {"unchecked": schedule.kernel(unchecked, deny_checks=True)}
    for kind, functions in _KINDS.items():
        for form in ReportForm:
            found[f"{kind}, {form.name}"] = schedule.kernel(functions[schedule.walked], report=form)
    return found


def _candidates(
    matrices: Matrices, timer: Timer, schedule: Schedule, made: dict[str, Any], table: tw.Tensor
) -> Iterator[Candidate]:
    for name, kernel in made.items():
        extra = () if name == "unchecked" else (table,)

        def run(number: int, kernel: Any = kernel, extra: tuple[tw.Tensor, ...] = extra) -> None:
            z, x, y = matrices.pick(number)
            kernel(schedule.cut(z), x, y, *extra).submit()

        error: Callable[[], float] = lambda run=run: matrices.error(run, timer)  # noqa: E731
        yield Candidate(name, run, error, "" if name == "unchecked" else "unchecked")


def measure_checks(timer: Timer, size: int, report: Report) -> None:
    matrices = Matrices(size)
    made = {schedule: check_kernels(schedule) for schedule in SCHEDULES}
    z, x, y = matrices.pick(0)
    for schedule, by_name in made.items():  # all assemblers start now
        for name, kernel in by_name.items():
            extra = () if name == "unchecked" else (matrices.table,)
            kernel(schedule.cut(z), x, y, *extra).close()
    for schedule, by_name in made.items():
        candidates = list(_candidates(matrices, timer, schedule, by_name, matrices.table))
        timer.warm_up()
        times, errors = compare(timer, candidates, LIMIT)
        table = Table(
            f"Checks on the k index, {schedule.name}, M=N=K={size}",
            ("form of report", "TFLOP/s", "of unchecked", "error"),
        )
        base = times["unchecked"].best if "unchecked" in times else math.nan
        for name, found in times.items():
            table.rows.append(
                (
                    name, f"{tflops(size, found.best):.1f}", f"{base / found.best:.3f}",
                    f"{errors[name]:.1e}",
                )
            )  # fmt: skip
            entry = {"size": size, "schedule": schedule.name, "form": name}
            report.add("checks", {**entry, "medians": found.medians, "error": errors[name]})
        table.show()
