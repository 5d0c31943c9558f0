"""Host costs of ways of which one may break: it is named in the report, and the others are timed.

A way that takes the context with it cannot be left out here: whoever runs the benchmark starts
again without it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

from lab import Lab

from tilewright.bench import BrokenWay, HostCost, Prepare, Report, drain, each, host_costs
from tilewright.errors import TilewrightError

__all__ = ["later", "timed_ways"]


def later(make: Callable[[], Callable[[], object]]) -> Prepare:
    """A step that is made when it is first needed: a peer that cannot be loaded costs only itself.

    Its first run, which compiles, happens then too.
    """
    made = functools.cache(make)
    return lambda count: each(made())(count)


def timed_ways(
    lab: Lab, report: Report, part: str, ways: Mapping[str, Prepare], *, count: int
) -> dict[str, HostCost]:
    """The costs of all ways that work, of `count` steps; few of them for a quick look."""
    left = {name: way for name, way in ways.items() if lab.wants(name)}
    while True:
        try:
            return host_costs(
                left,
                count=max(1, count // 50) if lab.is_quick else count,
                turns=2 if lab.is_quick else 9,
                stream=lab.stream,
            )
        except BrokenWay as broken:
            _drain(lab, broken)
            print(broken, flush=True)
            report.figure(part, failures={broken.name: str(broken)})
            del left[broken.name]


def _drain(lab: Lab, broken: BrokenWay) -> None:
    try:
        drain(lab.stream)
    except TilewrightError as lost:
        raise broken from lost
