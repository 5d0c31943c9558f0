"""Replays of graphs of a hundred additions: ours beside the driver's, over 3 and 300 tensors.

With 3 tensors every node depends on the one before; with 300 the nodes are independent, and ours
form lanes behind an empty kernel. The driver's graph has the same edges and the same kernel as
compiled by cuTile Python, which starts when the previous one has ended; ours start early. A graph
without edges is timed as well, since the driver launches lanes faster.

The time of a graph of many branches varies by some 4 %, for ours and the driver's alike, with the
graphs made before it, probably with the hardware queues of its branches. Several graphs of each are
therefore made in pairs, and the pairs are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from statistics import median

from lab import Lab
from launch_rates import LENGTH, Additions
from raw_graphs import in_a_chain, raw_graph
from timed_ways import timed_ways

import tilewright as tw
from tilewright.backends.cuda.graph import in_lanes, starts_together
from tilewright.bench import Bound, HostCost, Report, Table, Target, each

__all__ = ["NODES", "measure_graphs", "target_name"]

NODES = 100
OURS, DRIVER, SIDE_BY_SIDE = "ours", "driver", "driver, no edges"
PAIRS = 5
REPLAYS = 200
ALLOWED = 1.02  # of the driver's own time


def measure_graphs(lab: Lab, report: Report) -> None:
    table = Table(
        f"Replays of a graph of {NODES} additions, microseconds each (best turn; median of graphs)",
        ("graph", "until queued", "until done", "a node", "least to most"),
    )
    for tensors in (3, 3 * NODES):
        replays = {name: each(replay) for name, replay in _replays(lab, tensors).items()}
        found = timed_ways(lab, report, "graphs", replays, count=REPLAYS)
        for name in (DRIVER, SIDE_BY_SIDE, OURS):
            costs = {number: found[_key(name, number)] for number in range(PAIRS)
                     if _key(name, number) in found}  # fmt: skip
            if costs:
                table.add(f"{name}, {tensors} tensors", *_cells(costs.values()))
            for number, cost in costs.items():
                about = {"name": name, "number": number, "tensors": tensors, "nodes": NODES}
                report.figure("graphs", **about, **cost.to_json())
        report.target(Target(target_name(tensors), Bound.AT_MOST, ALLOWED, _ratio(found)))
    print(table.to_text(), flush=True)
    report.table(table)


def _key(name: str, number: int) -> str:
    return f"{name} {number}"


def _cells(costs: Iterable[HostCost]) -> tuple[str, ...]:
    queued, done = (
        [getattr(cost, part).least * 1e6 for cost in costs] for part in ("queued", "done")
    )
    middle = median(done)
    spread = f"{min(done):.2f} to {max(done):.2f}"
    return f"{median(queued):.2f}", f"{middle:.2f}", f"{middle / NODES:.3f}", spread


def _ratio(found: dict[str, HostCost]) -> float:
    """Our time as a fraction of the driver's, of the median pair."""
    pairs = [(found.get(_key(OURS, number)), found.get(_key(DRIVER, number)))
             for number in range(PAIRS)]  # fmt: skip
    ratios = [ours.done.least / raw.done.least for ours, raw in pairs if ours and raw]
    return median(ratios) if ratios else float("nan")


def target_name(tensors: int) -> str:
    """The target of a replay, relative to the driver's own."""
    return f"a graph's replay over {tensors} tensors, of the driver's own time"


def _replays(lab: Lab, tensors: int) -> dict[str, Callable[[], object]]:
    """The replays of all graphs, by kind and number."""
    additions = Additions(lab)
    replays: dict[str, Callable[[], object]] = {}
    for number in range(PAIRS):
        sets = _tensors(lab, tensors)
        for name, replay in _of_the_driver(lab, sets, has_others=number == 0).items():
            replays[_key(name, number)] = replay
        with tw.graph() as made:
            for z, x, y in sets:
                made.record(additions.kernel(z.partition(LENGTH), x, y))
        replays[_key(OURS, number)] = lambda made=made: made.launch().submit()
    return replays


def _of_the_driver(
    lab: Lab, sets: list[tuple[tw.Tensor, ...]], *, has_others: bool
) -> dict[str, Callable[[], object]]:
    """The driver's own graphs, if its kernel was exported: with our edges, and without edges."""
    peer = lab.peers.get(f"add-f16-{LENGTH}")
    if peer is None:
        return {}
    launches = [peer.launch(lab.stream, 0, *one) for one in sets]
    if sets[0] is sets[-1]:
        return {DRIVER: raw_graph(lab, launches, in_a_chain(NODES))}
    apart: list[tuple[int, ...]] = [()] * NODES
    lanes = in_lanes(apart)
    found = {DRIVER: raw_graph(lab, launches, lanes, has_start=starts_together(lanes))}
    if has_others:
        found[SIDE_BY_SIDE] = raw_graph(lab, launches, apart)
    return found


def _tensors(lab: Lab, tensors: int) -> list[tuple[tw.Tensor, ...]]:
    """Three tensors for all nodes, or three for each."""
    made = [
        (lab.empty(LENGTH), lab.random(LENGTH), lab.random(LENGTH)) for _ in range(tensors // 3)
    ]
    return made * (NODES // len(made))
