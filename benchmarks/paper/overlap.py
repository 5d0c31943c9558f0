"""Async overlap: a graph of 300 small launches beside W microseconds of host work, over and over.

`sync` waits for the graph and then works; `async` submits it, works, and then awaits it. Figures
are pipelines a second, the best of the turns, which alternate.
"""

from __future__ import annotations

import asyncio
import time

from lab import Lab
from launch_rates import Additions

from tilewright.bench import Plot, Report, Series, Table, drain, graph_of, on_stream
from tilewright.runtime.graph import Graph

__all__ = ["TITLE", "run"]

TITLE = "Async overlap: pipelines a second by host work"
NODES = 300
WORK = (0, 30, 100, 300, 1000, 10000)  # microseconds
PAPER = {  # sync and async on an RTX 5090
    0: (3298, 3135), 30: (3138, 3112), 100: (2578, 3267),
    300: (1644, 3266), 1000: (770, 984), 10000: (97, 100),
}  # fmt: skip


def run(lab: Lab, report: Report) -> None:
    nodes, works = (3, WORK[:2]) if lab.is_quick else (NODES, WORK)
    graph = graph_of(Additions(lab).op, nodes)
    table = Table(
        f"Pipelines a second, a graph of {nodes} launches each",
        ("host work, us", "sync", "async", "gain", "paper: sync", "paper: async", "paper: gain"),
    )
    rates: dict[str, list[tuple[float, float]]] = {"sync": [], "async": []}
    for work in works:
        sync, overlapped = _best(lab, graph, work)
        rates["sync"].append((max(work, 1), sync))
        rates["async"].append((max(work, 1), overlapped))
        theirs = PAPER[work]
        table.add(
            str(work), f"{sync:.0f}", f"{overlapped:.0f}", f"{overlapped / sync:.2f}",
            *map(str, theirs), f"{theirs[1] / theirs[0]:.2f}",
        )  # fmt: skip
        report.figure("overlap", work=work, sync=sync, overlapped=overlapped)
    print(table.to_text(), flush=True)
    report.table(table)
    series = [Series(name, points) for name, points in rates.items()]
    axes = "host work, microseconds", "pipelines a second"
    report.plot(Plot("overlap", TITLE, *axes, series, log_y=True))


def _best(lab: Lab, graph: Graph, work: int) -> tuple[float, float]:
    count = 2 if lab.is_quick else max(20, min(200, 200_000 // (work + 300)))
    sync, overlapped = [], []
    for _ in range(2 if lab.is_quick else 5):
        sync.append(_sync(lab, graph, work, count))
        overlapped.append(asyncio.run(_async(lab, graph, work, count)))
    return max(sync), max(overlapped)


def _sync(lab: Lab, graph: Graph, work: int, count: int) -> float:
    with on_stream(lab.stream):
        drain(lab.stream)
        start = time.perf_counter()
        for _ in range(count):
            graph.launch().sync()
            spin(work)
        return count / (time.perf_counter() - start)


async def _async(lab: Lab, graph: Graph, work: int, count: int) -> float:
    with on_stream(lab.stream):
        drain(lab.stream)
        start = time.perf_counter()
        for _ in range(count):
            under_way = graph.launch().submit()
            spin(work)
            await under_way
        return count / (time.perf_counter() - start)


def spin(microseconds: float) -> None:
    """Work of the host."""
    end = time.perf_counter() + microseconds / 1e6
    while time.perf_counter() < end:
        pass
