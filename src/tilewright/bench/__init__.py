"""Measuring: times on a device and on the host, paired comparisons, rooflines, tables and plots.

    from tilewright.bench import compare, do_bench

    print(do_bench(lambda: add(z.partition(1024), x, y)).median)
    found = compare({"torch": lambda: torch.add(a, b, out=c), "ours": lambda: add(…)})
    print(found.speed("ours"), "times as fast, noise", found.noise)

Loaded only by those who measure: `import tilewright` does not load it.
"""

from __future__ import annotations

from tilewright.bench.clocks import Clock, DeviceClock, HostClock
from tilewright.bench.machine import machine_facts
from tilewright.bench.paired import Candidate, Comparison, compare
from tilewright.bench.subjects import Run
from tilewright.bench.timer import Timer, do_bench
from tilewright.bench.timing import Effort, Timing

__all__ = [
    "Candidate",
    "Clock",
    "Comparison",
    "DeviceClock",
    "Effort",
    "HostClock",
    "Run",
    "Timer",
    "Timing",
    "compare",
    "do_bench",
    "machine_facts",
]
