"""Graphs of a hundred additions, replayed: ours beside the driver's own, over 3 and 300 tensors.

With 3 tensors every node waits for the one before, with 300 none has to, and ours stand in lanes,
behind a kernel that does nothing. The driver's graph has the same edges and the same kernel as
cuTile Python compiles it, which starts when the one before it has ended; ours start early. One
without any edge is timed as well, since lanes are our choice and the driver launches them faster.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from lab import Lab
from launch_rates import LENGTH, Additions
from raw_graphs import in_a_chain, raw_graph
from timed_ways import timed_ways

import tilewright as tw
from tilewright.backends.cuda.graph import in_lanes, starts_together
from tilewright.bench import Bound, Report, Table, Target, each

__all__ = ["NODES", "measure_graphs", "target_name"]

NODES = 100
DRIVER, SIDE_BY_SIDE = "driver", "driver, no edges"
REPLAYS = 200
ALLOWED = 1.02  # of the driver's own time


def measure_graphs(lab: Lab, report: Report) -> None:
    table = Table(
        f"Replays of a graph of {NODES} additions, microseconds each (best turn)",
        ("graph", "until queued", "until done", "a node"),
    )
    for tensors in (3, 3 * NODES):
        replays = {name: each(replay) for name, replay in _replays(lab, tensors).items()}
        found = timed_ways(lab, report, "graphs", replays, count=REPLAYS)
        for name, cost in found.items():
            queued, done = cost.queued.least * 1e6, cost.done.least * 1e6
            cells = f"{queued:.2f}", f"{done:.2f}", f"{done / NODES:.3f}"
            table.add(f"{name}, {tensors} tensors", *cells)
            report.figure("graphs", name=name, tensors=tensors, nodes=NODES, **cost.to_json())
        ours, raw = _least(found.get("ours")), _least(found.get(DRIVER))
        report.target(Target(target_name(tensors), Bound.AT_MOST, ALLOWED, ours / raw))
    print(table.to_text(), flush=True)
    report.table(table)


def target_name(tensors: int) -> str:
    """What is to be as fast as the driver's own."""
    return f"a graph's replay over {tensors} tensors, of the driver's own time"


def _least(cost: Any) -> float:
    return math.nan if cost is None else cost.done.least


def _replays(lab: Lab, tensors: int) -> dict[str, Callable[[], object]]:
    additions = Additions(lab)
    sets = _tensors(additions, tensors)
    replays: dict[str, Callable[[], object]] = {}
    name = f"add-f16-{LENGTH}"
    if name in lab.peers:
        launches = [lab.peers[name].launch(lab.stream, 0, *one) for one in sets]
        if tensors == 3:
            replays[DRIVER] = raw_graph(lab, launches, in_a_chain(NODES))
        else:
            apart: list[tuple[int, ...]] = [()] * NODES
            lanes = in_lanes(apart)
            has_start = starts_together(lanes)
            replays[DRIVER] = raw_graph(lab, launches, lanes, has_start=has_start)
            replays[SIDE_BY_SIDE] = raw_graph(lab, launches, apart)
    with tw.graph() as made:
        for z, x, y in sets:
            made.record(additions.kernel(z.partition(LENGTH), x, y))
    replays["ours"] = lambda: made.launch().submit()
    return replays


def _tensors(additions: Additions, tensors: int) -> list[tuple[tw.Tensor, ...]]:
    """Three for all nodes, or three for each."""
    if tensors == 3:
        return [(additions.z, additions.x, additions.y)] * NODES
    lab = additions.lab
    return [(lab.empty(LENGTH), lab.random(LENGTH), lab.random(LENGTH)) for _ in range(NODES)]
