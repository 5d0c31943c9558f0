"""The library's product beside cuBLAS's, by how it is launched: one by one, and in graphs.

One by one, events stand before and behind each product and nothing is queued ahead, so the time
that the host needs for a call shows wherever the device waits for it. In a graph it never does.
All products of a graph write one output, so that they run one after the other.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Iterable
from typing import Any

from paper.matrices import Matrices, tflops
from tilewright.bench import (
    Bound,
    Comparison,
    Report,
    Table,
    Target,
    compare,
    graph_of,
)
from tilewright.kernels import matmul

__all__ = ["CUBLAS", "LIBRARY", "TARGETS", "Launched", "mean_ratio"]

CUBLAS, LIBRARY = "cuBLAS", "library"
EAGERLY, IN_GRAPHS = "one by one", "in a graph"
# Targets, by how products are launched.
TARGETS = {
    way: f"products of 1024 to 16384, {way}, TFLOP/s of cuBLAS's, geometric mean"
    for way in (EAGERLY, IN_GRAPHS)
}


def mean_ratio(ratios: Iterable[float]) -> float:
    """The geometric mean; not a number if one of them is none."""
    logarithms = [math.log(ratio) for ratio in ratios]
    return math.exp(math.fsum(logarithms) / len(logarithms))


class Launched:
    """Figures of all sizes, and the table that they stand in."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._ratios: dict[str, list[float]] = {way: [] for way in TARGETS}
        columns = ((f"{CUBLAS}, {way}", f"{LIBRARY}, {way}", "ratio") for way in TARGETS)
        self._table = Table(
            "TFLOP/s of cuBLAS and of the library, by how they are launched",
            ("M = N = K", *(column for three in columns for column in three)),
        )
        report.table(self._table)

    def measure(self, matrices: Matrices) -> None:
        """One more size."""
        cells: list[str] = []
        for way, time in ((EAGERLY, _one_by_one), (IN_GRAPHS, _in_graphs)):
            try:
                found = time(matrices)
            except Exception:  # noqa: BLE001 (the other sizes are still worth having)
                traceback.print_exc()
                self._ratios[way].append(math.nan)
                cells += ["", "", ""]
                continue
            rates = {name: tflops(matrices.size, found.seconds(name)) for name in (CUBLAS, LIBRARY)}
            ratio = rates[LIBRARY] / rates[CUBLAS]
            self._ratios[way].append(ratio)
            cells += [f"{rates[CUBLAS]:.0f}", f"{rates[LIBRARY]:.0f}", f"{ratio:.3f}"]
            self._report.figure(
                "launched", way=way, size=matrices.size, rates=rates, **found.to_json()
            )
            for name, reason in found.failures.items():
                print(f"{way}, {name}: {reason}", flush=True)
        self._table.add(str(matrices.size), *cells)

    def show(self) -> None:
        """Print the table."""
        print(self._table.to_text(), flush=True)

    def targets(self) -> None:
        """Both ways beside the target."""
        for way, what in TARGETS.items():
            self._report.target(Target(what, Bound.AT_LEAST, 1.05, mean_ratio(self._ratios[way])))


def _one_by_one(matrices: Matrices) -> Comparison:
    lab = matrices.lab
    candidates = [
        matrices.candidate(
            LIBRARY, [lambda s=s: matmul(s[1], s[2], out=s[0]) for s in matrices.sets]
        )
    ]
    if lab.has_gpu:
        torch = lab.load("torch")
        theirs = [tuple(map(lab.as_torch, one)) for one in matrices.sets]
        runs = [lambda s=s: torch.matmul(s[1], s[2], out=s[0]) for s in theirs]
        candidates.insert(0, matrices.candidate(CUBLAS, runs))
    repetitions = 5 if matrices.size > 8192 else 25
    return compare(candidates, timer=lab.eager_timer(repetitions=repetitions, rounds=4))


def _in_graphs(matrices: Matrices) -> Comparison:
    lab, sets = matrices.lab, matrices.sets[::-1]  # the one that is checked comes last
    count = len(sets) * (1 if len(sets) > 2 else 2)
    out = matrices.sets[0][0]
    ours = graph_of([lambda s=s: matmul(s[1], s[2], out=out) for s in sets], count)
    graphs: dict[str, Callable[[], Any]] = {LIBRARY: ours.launch}
    if lab.has_gpu:
        torch, view = lab.load("torch"), lab.as_torch
        target = view(out)
        pairs = [(view(x), view(y)) for _, x, y in sets]
        runs = [lambda x=x, y=y: torch.matmul(x, y, out=target) for x, y in pairs]
        graphs = {CUBLAS: lab.captured(runs, count), **graphs}
    candidates = [matrices.candidate(name, [run]) for name, run in graphs.items()]
    repetitions = 5 if matrices.size > 8192 else 11
    found = compare(candidates, timer=lab.timer(repetitions=repetitions, rounds=4))
    return found.per(count)
