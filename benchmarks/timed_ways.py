"""Host costs of several ways, any of which may fail: a failure is reported, the others are timed.

Each way is tried alone first, and the outcome is printed: one that raises, or would exceed the time
limit, is omitted. A way that destroys the context cannot be omitted here: the benchmark restarts
without it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping

from lab import Lab

from tilewright.bench import BrokenWay, HostCost, Prepare, Report, drain, each, host_costs
from tilewright.errors import TilewrightError

__all__ = ["later", "timed_ways"]

FEW, SOME = 10, 200  # steps of a trial
LONGEST = 12.0  # seconds for all turns of one way


def later(make: Callable[[], Callable[[], object]]) -> Prepare:
    """A step made on first use, so that a peer that cannot be imported costs only itself.

    Its first run, which compiles, happens then too.
    """
    made = functools.cache(make)
    return lambda count: each(made())(count)


def timed_ways(
    lab: Lab, report: Report, part: str, ways: Mapping[str, Prepare], *, count: int
) -> dict[str, HostCost]:
    """The costs of all working ways, of `count` steps; fewer for a quick look."""
    steps = max(1, count // 50) if lab.is_quick else count
    turns = 2 if lab.is_quick else 9
    failures: dict[str, str] = {}
    left = {}
    for name, way in ways.items():
        if lab.wants(name):
            seconds = _tried(lab, name, way, steps, failures)
            if name not in failures and seconds * turns > LONGEST:
                failures[name] = f"{seconds / steps * 1e6:.0f} us a step: too long to be timed"
            elif name not in failures:
                left[name] = way
    for name, reason in failures.items():
        print(f"{name}: {reason}", flush=True)
        report.figure(part, failures={name: reason})
    return host_costs(left, count=steps, turns=turns, stream=lab.stream) if left else {}


def _tried(lab: Lab, name: str, way: Prepare, steps: int, failures: dict[str, str]) -> float:
    """Seconds of all steps after compilation; a few steps first expose an endless one."""
    print(f"  {name} …", end="", flush=True)
    try:
        host_costs({name: way}, count=min(steps, FEW), turns=1, stream=lab.stream)
        found = host_costs({name: way}, count=min(steps, SOME), turns=1, stream=lab.stream)[name]
    except BrokenWay as broken:
        _drain(lab, broken)
        failures[name] = str(broken)
        print(" broken", flush=True)
        return math.nan
    print(f" {found.done.least * 1e6:.2f} us", flush=True)
    return found.done.least * steps


def _drain(lab: Lab, broken: BrokenWay) -> None:
    try:
        drain(lab.stream)
    except TilewrightError as lost:
        raise broken from lost
