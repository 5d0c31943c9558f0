"""Async overlap: a graph of 300 small launches beside W microseconds of host work, repeatedly.

`sync` waits for the graph and then works; `async` submits it, works, and then awaits it; `driver`
does the same as `async` with the driver's own calls and no event loop. Figures are pipelines a
second, the best of the turns, which alternate.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from lab import Lab
from launch_rates import LENGTH, Additions
from raw_graphs import in_a_chain, raw_graph

from tilewright.bench import Plot, Report, Series, Table, drain, graph_of, on_stream

__all__ = ["TITLE", "run", "spin"]

TITLE = "Async overlap: pipelines a second by host work"
NODES = 300
WORK = (0, 30, 100, 300, 1000, 10000)  # microseconds
PAPER = {  # sync and async on an RTX 5090
    0: (3298, 3135), 30: (3138, 3112), 100: (2578, 3267),
    300: (1644, 3266), 1000: (770, 984), 10000: (97, 100),
}  # fmt: skip
Step = Callable[[int], Awaitable[None]]


def run(lab: Lab, report: Report) -> None:
    nodes, works = (3, WORK[:2]) if lab.is_quick else (NODES, WORK)
    ways = _ways(lab, nodes)
    table = Table(
        f"Pipelines a second, a graph of {nodes} launches each",
        ("host work, us", "sync", "async", "gain", "driver", "paper: sync", "paper: async",
         "paper: gain"),
    )  # fmt: skip
    report.table(table)
    rates: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for work in works:
        found = asyncio.run(_best(lab, ways, work))
        for name, rate in found.items():
            rates[name].append((max(work, 1), rate))
        theirs = PAPER[work]
        table.add(
            str(work), f"{found['sync']:.0f}", f"{found['async']:.0f}",
            f"{found['async'] / found['sync']:.2f}",
            f"{found['driver']:.0f}" if "driver" in found else "",
            *map(str, theirs), f"{theirs[1] / theirs[0]:.2f}",
        )  # fmt: skip
        report.figure("overlap", work=work, **found)
    print(table.to_text(), flush=True)
    series = [Series(name, points, name == "driver") for name, points in rates.items()]
    axes = "host work, microseconds", "pipelines a second"
    report.plot(Plot("overlap", TITLE, *axes, series, log_y=True))


def _ways(lab: Lab, nodes: int) -> dict[str, Step]:
    """One pipeline with so much host work, in each available mode."""
    additions = Additions(lab)
    graph = graph_of(additions.op, nodes)

    async def sync(work: int) -> None:
        graph.launch().sync()
        spin(work)

    async def overlapped(work: int) -> None:
        under_way = graph.launch().submit()
        spin(work)
        await under_way

    ways: dict[str, Step] = {"sync": sync, "async": overlapped}
    if lab.has_gpu and f"add-f16-{LENGTH}" in lab.peers:
        replay = raw_graph(lab, [Additions(lab).raw()] * nodes, in_a_chain(nodes))
        wait = lab.load("torch").cuda.ExternalStream(lab.stream.queue.number).synchronize

        async def driver(work: int) -> None:
            replay()
            spin(work)
            wait()

        ways["driver"] = driver
    return ways


async def _best(lab: Lab, ways: dict[str, Step], work: int) -> dict[str, float]:
    count = 2 if lab.is_quick else max(20, min(200, 200_000 // (work + 300)))
    rates: dict[str, list[float]] = {name: [] for name in ways}
    with on_stream(lab.stream):
        for _ in range(2 if lab.is_quick or work > 500 else 5):
            for name, step in ways.items():
                drain(lab.stream)
                start = time.perf_counter()
                for _ in range(count):
                    await step(work)
                rates[name].append(count / (time.perf_counter() - start))
    return {name: max(found) for name, found in rates.items()}


def spin(microseconds: float) -> None:
    """Busy host work."""
    end = time.perf_counter() + microseconds / 1e6
    while time.perf_counter() < end:
        pass
