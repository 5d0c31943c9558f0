"""Refusals of work that cannot be a node of a graph, the same for all backends."""

from __future__ import annotations

from tilewright.errors import LaunchError

__all__ = ["allocation_in_graph", "copy_to_host_in_graph"]


def allocation_in_graph() -> LaunchError:
    """The refusal of an operation that allocates memory when it runs."""
    return LaunchError(
        "an operation that allocates memory when it runs cannot be part of a graph, which has the"
        " same addresses at every replay: make its tensors before, and record the writes to"
        " them"
    )


def copy_to_host_in_graph() -> LaunchError:
    """The refusal of a copy to an array of the host."""
    return LaunchError(
        "a copy to the host cannot be part of a graph: replay the graph, and then read its tensors"
    )
