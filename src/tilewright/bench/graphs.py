"""Graphs of repetitions: times without the host, and without gaps between launches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.runtime.graphs.graph import Graph, graph
from tilewright.runtime.ops.operation import DeviceOp

__all__ = ["graph_of"]


def graph_of(build: Callable[[], DeviceOp[Any]] | Sequence[Any], count: int) -> Graph:
    """Return a graph with `count` nodes of an operation, built anew for each.

    Several builders alternate, which rotates buffers. Repetitions that write the same tensor run
    one after the other, others in parallel. `do_bench(g.launch).per(count)` is the time of one.
    """
    builders = tuple(build) if isinstance(build, Sequence) else (build,)
    if count < 1 or not builders:
        raise ValueError(
            f"a graph needs at least one repetition of something, not {count} of {len(builders)}"
        )
    with graph() as made:
        for number in range(count):
            made.record(builders[number % len(builders)]())
    return made
