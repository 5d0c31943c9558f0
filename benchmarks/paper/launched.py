"""The library's product beside cuBLAS's, those two alone and in turns, by launch mode.

Queued back to back, the stream is held until the host has filled it. One by one, events surround
each product and nothing is queued ahead, so the host time of a call counts wherever the device
waits for it. A graph excludes host time; all its products write one output, which orders them.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable
from typing import Any

from paper.matrices import Matrices, tflops
from tilewright.bench import (
    Bound,
    Candidate,
    Comparison,
    Report,
    Table,
    Target,
    compare,
    graph_of,
)
from tilewright.kernels import matmul

__all__ = ["ALL", "CUBLAS", "LARGE", "LIBRARY", "TARGETS", "Launched"]

CUBLAS, LIBRARY = "cuBLAS", "library"
QUEUED, EAGERLY, IN_GRAPHS = "queued", "one by one", "in a graph"
# Targets by launch mode.
ALL = "products of 1024 to 16384, TFLOP/s of cuBLAS's, geometric mean"
TARGETS = {
    QUEUED: ALL,
    EAGERLY: "products of 1024 to 16384, one by one, TFLOP/s of cuBLAS's, geometric mean",
    IN_GRAPHS: "products of 1024 to 16384, in a graph, TFLOP/s of cuBLAS's, geometric mean",
}
LARGE = "product of 8192, TFLOP/s of cuBLAS's"


class Launched:
    """Figures of all sizes, and their table."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._ratios: dict[str, dict[int, float]] = {way: {} for way in TARGETS}
        columns = ((f"{CUBLAS}, {way}", f"{LIBRARY}, {way}", "ratio") for way in TARGETS)
        self._table = Table(
            "TFLOP/s of cuBLAS and of the library, by how they are launched",
            ("M = N = K", *(column for three in columns for column in three)),
        )
        report.table(self._table)

    def measure(self, matrices: Matrices) -> dict[str, float]:
        """Measure one more size; returns the rates of both, queued."""
        cells: list[str] = []
        queued: dict[str, float] = {}
        for way, time in _WAYS.items():
            try:
                found = time(matrices)
            except Exception:  # noqa: BLE001 (the other sizes are still worth having)
                traceback.print_exc()
                self._ratios[way][matrices.size] = math.nan
                cells += ["", "", ""]
                continue
            both = (name for name in (CUBLAS, LIBRARY) if name in found)
            rates = {name: tflops(matrices.size, found.seconds(name)) for name in both}
            queued = queued or rates
            ratio = found.speed(LIBRARY, CUBLAS) if CUBLAS in found else math.nan
            self._ratios[way][matrices.size] = ratio
            cells += [f"{rates.get(name, math.nan):.0f}" for name in (CUBLAS, LIBRARY)]
            cells.append(f"{ratio:.3f}")
            self._report.figure(
                "launched", way=way, size=matrices.size, rates=rates, **found.to_json()
            )
            for name, reason in found.failures.items():
                print(f"{way}, {name}: {reason}", flush=True)
        self._table.add(str(matrices.size), *cells)
        return queued

    def show(self) -> None:
        """Print the table."""
        print(self._table.to_text(), flush=True)

    def targets(self) -> None:
        """All launch modes beside the target."""
        large = self._ratios[QUEUED].get(8192, math.nan)
        self._report.target(Target(LARGE, Bound.AT_LEAST, 1.02, large))
        for way, what in TARGETS.items():
            ratios = self._ratios[way].values()
            mean = math.exp(math.fsum(map(math.log, ratios)) / len(ratios))
            self._report.target(Target(what, Bound.AT_LEAST, 1.05, mean))


def _pair(matrices: Matrices) -> list[Candidate]:
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
    return candidates


def _queued(matrices: Matrices) -> Comparison:
    repetitions = 3 if matrices.size > 8192 else 9
    return compare(_pair(matrices), timer=matrices.lab.timer(repetitions=repetitions, rounds=6))


def _one_by_one(matrices: Matrices) -> Comparison:
    repetitions = 5 if matrices.size > 8192 else 25
    timer = matrices.lab.eager_timer(repetitions=repetitions, rounds=4)
    return compare(_pair(matrices), timer=timer)


def _in_graphs(matrices: Matrices) -> Comparison:
    lab, sets = matrices.lab, matrices.sets[::-1]  # the checked set comes last
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


_WAYS = {QUEUED: _queued, EAGERLY: _one_by_one, IN_GRAPHS: _in_graphs}
