"""Graphs of the peers' launches, built and replayed with the driver's own calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lab import Lab

__all__ = ["in_a_chain", "raw_graph"]


def in_a_chain(count: int) -> list[tuple[int, ...]]:
    """The predecessors of each node in a sequence."""
    return [(node - 1,) if node else () for node in range(count)]


def raw_graph(
    lab: Lab, launches: list[Any], behind: Sequence[tuple[int, ...]], *, has_start: bool = False
) -> Callable[[], None]:
    """The replay of a graph built with the driver's own calls, with the predecessors of each node.

    Nodes without predecessors may wait for an empty kernel.
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
