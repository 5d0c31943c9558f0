"""Benchmarks: times on a device and on the host, paired comparisons, rooflines, tables and plots.

    from tilewright.bench import compare, do_bench

    print(do_bench(lambda: add(z.partition(1024), x, y)).median)
    found = compare({"torch": lambda: torch.add(a, b, out=c), "ours": lambda: add(…)})
    print(found.speed("ours"), "times as fast, noise", found.noise)

`import tilewright` does not load this package.
"""

from __future__ import annotations

from tilewright.bench.clocks import Clock, DeviceClock, EagerClock, HostClock
from tilewright.bench.graphs import graph_of
from tilewright.bench.host_cost import BrokenWay, HostCost, Prepare, each, host_costs
from tilewright.bench.machine import machine_facts
from tilewright.bench.paired import Candidate, Comparison, compare
from tilewright.bench.plots import draw
from tilewright.bench.reports import Bound, Report, Target
from tilewright.bench.roofline import Ceilings, Work, measure_ceilings
from tilewright.bench.subjects import Run, drain, on_stream
from tilewright.bench.tables import Plot, Series, Table
from tilewright.bench.timer import Timer, do_bench
from tilewright.bench.timing import Effort, Timing

__all__ = [
    "Bound",
    "BrokenWay",
    "Candidate",
    "Ceilings",
    "Clock",
    "Comparison",
    "DeviceClock",
    "EagerClock",
    "Effort",
    "HostClock",
    "HostCost",
    "Plot",
    "Prepare",
    "Report",
    "Run",
    "Series",
    "Table",
    "Target",
    "Timer",
    "Timing",
    "Work",
    "compare",
    "do_bench",
    "drain",
    "draw",
    "each",
    "graph_of",
    "host_costs",
    "machine_facts",
    "measure_ceilings",
    "on_stream",
]
