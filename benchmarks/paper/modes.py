"""Execution modes: N dependent launches of a small kernel, synchronised in different ways.

A step adds two vectors of 2,048 f16 numbers in one block. Figures are microseconds a launch: the
least and, in brackets, the median of the turns; all modes take turns. The timer includes building
operations, except for a recorded graph. torch captures the graphs of peers; the driver's graph is
built of its own nodes.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any

from lab import Lab
from launch_rates import FLOOR, ONE_NODE, Additions
from raw_graphs import in_a_chain, raw_graph

import tilewright as tw
from tilewright.bench import (
    Plot,
    Prepare,
    Report,
    Series,
    Table,
    Timing,
    drain,
    graph_of,
    on_stream,
)

__all__ = ["TITLE", "run"]

TITLE = "Execution modes: microseconds a launch"
COUNTS = (1, 10, 100, 1000)
# Minima and medians of cuTile Rust on an RTX 5090, by number of launches.
PAPER = {
    "sync each": ("6.61 (7.28)", "7.10 (7.29)", "7.22 (7.26)", "7.28 (7.44)"),
    "chained": ("6.68 (7.64)", "3.67 (3.69)", "3.35 (3.39)", "3.36 (3.36)"),
    "async, one await": ("20.51 (22.02)", "5.07 (5.15)", "3.53 (3.57)", "3.38 (3.40)"),
    "graph": ("4.62 (5.55)", "1.21 (1.24)", "0.85 (0.85)", "0.81 (0.81)"),
}
Way = Callable[[], Awaitable[object]]


def run(lab: Lab, report: Report) -> None:
    found: dict[str, dict[int, Timing]] = {}
    counts = COUNTS[:2] if lab.is_quick else COUNTS
    for count in counts:
        ways = {name: way for name, way in _ways(lab, count) if lab.wants(name)}
        turns = 3 if lab.is_quick else max(7, min(300, 1500 // count))
        times = asyncio.run(_turns(lab, report, ways, turns))
        for name, seconds in times.items():
            timing = Timing(tuple(seconds)).per(count)
            found.setdefault(name, {})[count] = timing
            report.figure("modes", name=name, count=count, **timing.to_json())
    _show(counts, found, report)


def _ways(lab: Lab, count: int) -> Iterator[tuple[str, Way]]:
    """The modes of ours; each has its own tensors, since those of a graph are tracked as one."""
    alone, submitted, chained, awaited, recorded = (Additions(lab) for _ in range(5))
    yield "sync each", _calling(lambda: [alone.op().sync() for _ in range(count)])
    yield "submitted, one wait", _calling(lambda: _submit(submitted, count))
    yield "chained", _calling(lambda: _chain(chained, count).sync())

    async def once() -> None:
        await _chain(awaited, count).submit()

    yield "async, one await", once
    graph = graph_of(recorded.op, count)
    yield "graph", _calling(lambda: graph.launch().sync())
    if lab.has_gpu:
        yield from _peers(lab, Additions(lab), count)


def _calling(function: Callable[[], object]) -> Way:
    async def call() -> None:
        function()

    return call


def _chain(additions: Additions, count: int) -> tw.DeviceOp[Any]:
    chain = additions.op()
    for _ in range(count - 1):
        chain = chain.then(lambda _: additions.op())
    return chain


def _submit(additions: Additions, count: int) -> None:
    for _ in range(count):
        additions.op().submit()
    additions.lab.stream.sync()


def _peers(lab: Lab, additions: Additions, count: int) -> Iterator[tuple[str, Way]]:
    """Peers wait for each launch, queue all and wait once, or replay a graph."""
    torch = lab.load("torch")
    wait = torch.cuda.ExternalStream(lab.stream.queue.number).synchronize
    peers = {name: prepare for name, prepare in additions.ways() if not name.startswith("ours")}
    for name, prepare in peers.items():
        once, together = (functools.cache(partial(prepare, steps)) for steps in (1, count))
        graph = functools.cache(partial(_captured, lab, additions, name, prepare, count))
        yield f"{name}: sync each", _calling(partial(_each, once, wait, count))
        yield f"{name}: one wait", _calling(lambda run=together: (run()(), wait()))
        if name != ONE_NODE:  # which is a graph already
            yield f"{name}: graph", _calling(lambda run=graph: (run()(), wait()))


def _each(made: Callable[[], Any], wait: Callable[[], object], count: int) -> None:
    once = made()
    for _ in range(count):
        once()
        wait()


def _captured(
    lab: Lab, additions: Additions, name: str, prepare: Prepare, count: int
) -> Callable[[], object]:
    """The replay of a peer's graph, made on its first run, before any timing."""
    if name == FLOOR:
        return raw_graph(lab, [additions.raw()] * count, in_a_chain(count))
    return lab.captured([prepare(1)], count, here=True)


async def _turns(
    lab: Lab, report: Report, ways: dict[str, Way], turns: int
) -> dict[str, list[float]]:
    with on_stream(lab.stream):
        whole = {name: way for name, way in ways.items() if await _works(report, name, way)}
        found: dict[str, list[float]] = {name: [] for name in whole}
        for turn in range(-1, turns):
            for name, way in whole.items():
                drain(lab.stream)
                start = time.perf_counter()
                await way()
                seconds = time.perf_counter() - start
                if turn >= 0:
                    found[name].append(seconds)
    return found


async def _works(report: Report, name: str, way: Way) -> bool:
    """Run a mode once; a failing peer must not stop the others."""
    try:
        await way()
    except Exception as error:  # noqa: BLE001
        reason = f"{type(error).__name__}: {error}"
        print(f"{name}: {reason}", flush=True)
        report.figure("modes", failures={name: reason})
        return False
    return True


def _show(counts: tuple[int, ...], found: dict[str, dict[int, Timing]], report: Report) -> None:
    columns = tuple(f"N = {count}" for count in counts)
    table = Table("Here: least (median) microseconds a launch", ("mode", *columns))
    for name, timings in found.items():
        cells = (_cell(timings.get(count)) for count in counts)
        table.add(name if ":" in name else f"ours: {name}", *cells)
    paper = Table(
        "The paper: cuTile Rust on an RTX 5090", ("mode", *(f"N = {count}" for count in COUNTS))
    )
    for name, cells in PAPER.items():
        paper.add(name, *cells)
    for one in (table, paper):
        report.table(one)
    print(table.to_text(), flush=True)
    series = [
        Series(
            name if ":" in name else f"ours: {name}",
            [(count, t.least * 1e6) for count, t in timings.items()],
            is_dashed=":" in name,
        )
        for name, timings in found.items()
        if name in PAPER or name.endswith("one wait")
    ]
    report.plot(Plot("modes", TITLE, "launches", "microseconds a launch", series, log_y=True))


def _cell(timing: Timing | None) -> str:
    return "" if timing is None else f"{timing.least * 1e6:.2f} ({timing.median * 1e6:.2f})"
