"""Graphs of the peers' launches, built and replayed with the driver's own calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lab import Lab

__all__ = ["in_a_chain", "raw_graph"]


def in_a_chain(count: int) -> list[tuple[int, ...]]:
    """The nodes before each node, where each waits for the last one."""
    return [(node - 1,) if node else () for node in range(count)]


def raw_graph(
    lab: Lab, launches: list[Any], behind: Sequence[tuple[int, ...]], *, has_start: bool = False
) -> Callable[[], None]:
    """The replay of a graph that was built with the driver's own calls, each node behind some.

    Those that are behind none may wait for a kernel that does nothing.
    """
    backend: Any = lab.device.backend
    queue: Any = lab.stream.queue
    driver, stream = backend.driver, queue.handle
    graph = driver.create_graph()
    start = [driver.add_idle_node(graph)] if has_start else []
    nodes: list[Any] = []
    for launch, before in zip(launches, behind, strict=True):
        nodes.append(launch.add_to(driver, graph, [nodes[node] for node in before] or start))
    executable = driver.instantiate_graph(graph)

    def replay(kept: Any = launches) -> None:
        assert kept, "the tensors live as long as the graph"
        driver.launch_graph(executable, stream)

    return replay
