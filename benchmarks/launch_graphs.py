"""Graphs of a hundred additions, replayed: ours beside the driver's own, over 3 and 300 tensors.

With 3 tensors every node waits for the one before, with 300 none has to, and ours stand in lanes,
behind a kernel that does nothing. The driver's graph has the same edges and the same kernel as
cuTile Python compiles it, which starts when the one before it has ended; ours start early. One
without any edge is timed as well, since lanes are our choice and the driver launches them faster.
The driver gives branches to queues of the GPU as it likes, and of two graphs that are alike one may
take 5 % longer: so there are three of each, and the fastest counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from lab import Lab
from launch_rates import LENGTH, Additions
from raw_graphs import in_a_chain, raw_graph
from timed_ways import timed_ways

import tilewright as tw
from tilewright.backends.cuda.graph import in_lanes, starts_together
from tilewright.bench import Bound, HostCost, Report, Table, Target, each

__all__ = ["NODES", "measure_graphs", "target_name"]

NODES = 100
DRIVER, SIDE_BY_SIDE = "driver", "driver, no edges"
REPLAYS = 200
ALIKE = 3  # graphs of each kind
ALLOWED = 1.02  # of the driver's own time


def measure_graphs(lab: Lab, report: Report) -> None:
    table = Table(
        f"Replays of a graph of {NODES} additions, microseconds each (best turn)",
        ("graph", "until queued", "until done", "a node"),
    )
    for tensors in (3, 3 * NODES):
        replays = {
            f"{name}, {number}": each(replay)
            for name, alike in _replays(lab, tensors).items()
            for number, replay in enumerate(alike, 1)
        }
        found = timed_ways(lab, report, "graphs", replays, count=REPLAYS)
        for name, cost in found.items():
            report.figure("graphs", name=name, tensors=tensors, nodes=NODES, **cost.to_json())
        fastest = _fastest(found)
        for name, cost in fastest.items():
            queued, done = cost.queued.least * 1e6, cost.done.least * 1e6
            cells = f"{queued:.2f}", f"{done:.2f}", f"{done / NODES:.3f}"
            table.add(f"{name}, {tensors} tensors", *cells)
        ours, raw = _least(fastest.get("ours")), _least(fastest.get(DRIVER))
        report.target(Target(target_name(tensors), Bound.AT_MOST, ALLOWED, ours / raw))
    print(table.to_text(), flush=True)
    report.table(table)


def target_name(tensors: int) -> str:
    """What is to be as fast as the driver's own."""
    return f"a graph's replay over {tensors} tensors, of the driver's own time"


def _fastest(found: dict[str, HostCost]) -> dict[str, HostCost]:
    """The fastest of the graphs that are alike."""
    kinds = dict.fromkeys(name.rpartition(", ")[0] for name in found)
    return {
        kind: min((found[f"{kind}, {n}"] for n in range(1, ALIKE + 1)), key=_least)
        for kind in kinds
    }


def _least(cost: HostCost | None) -> float:
    return math.nan if cost is None else cost.done.least


def _replays(lab: Lab, tensors: int) -> dict[str, list[Callable[[], object]]]:
    """For each kind, graphs that are alike."""
    additions = Additions(lab)
    sets = _tensors(additions, tensors)
    replays: dict[str, list[Callable[[], object]]] = {}
    name = f"add-f16-{LENGTH}"
    if name in lab.peers:
        launches = [lab.peers[name].launch(lab.stream, 0, *one) for one in sets]
        if tensors == 3:
            chain = in_a_chain(NODES)
            replays[DRIVER] = [raw_graph(lab, launches, chain) for _ in range(ALIKE)]
        else:
            apart: list[tuple[int, ...]] = [()] * NODES
            lanes = in_lanes(apart)
            start = starts_together(lanes)
            replays[DRIVER] = [
                raw_graph(lab, launches, lanes, has_start=start) for _ in range(ALIKE)
            ]
            replays[SIDE_BY_SIDE] = [raw_graph(lab, launches, apart) for _ in range(ALIKE)]
    replays["ours"] = [_ours(additions, sets) for _ in range(ALIKE)]
    return replays


def _ours(additions: Additions, sets: list[tuple[tw.Tensor, ...]]) -> Callable[[], object]:
    with tw.graph() as made:
        for z, x, y in sets:
            made.record(additions.kernel(z.partition(LENGTH), x, y))
    return lambda: made.launch().submit()


def _tensors(additions: Additions, tensors: int) -> list[tuple[tw.Tensor, ...]]:
    """Three for all nodes, or three for each."""
    if tensors == 3:
        return [(additions.z, additions.x, additions.y)] * NODES
    lab = additions.lab
    return [(lab.empty(LENGTH), lab.random(LENGTH), lab.random(LENGTH)) for _ in range(NODES)]
