"""Graphs on the CPU: one task that runs the nodes one by one, in topological order.

A node that raises does not stop the others, as in a queue. Of the nodes that are ready, the one
recorded last runs first: a GPU may choose any of them, and a missing edge should fail here as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NoReturn

from tilewright.backends.cpu.memory import KernelMemory
from tilewright.backends.cpu.stopping import Stop
from tilewright.backends.cpu.stream import CpuQueue
from tilewright.backends.cpu.tasks import Tasks
from tilewright.runtime.devices.backend import Bytes, Recipe
from tilewright.runtime.graphs.recording import allocation_in_graph, copy_to_host_in_graph

__all__ = ["CpuGraph"]

# The tasks of a node, in order; those that cannot be stopped ignore the `Stop`.
Pieces = tuple[Callable[[Stop], object], ...]


class _TaskCollector(Tasks):
    """Collects tasks without running them."""

    def __init__(self) -> None:
        self.tasks: list[Callable[[Stop], object]] = []

    def put(self, run: Callable[[], object], *, repeatable: bool = False) -> None:
        """Collect a task."""
        del repeatable
        self.tasks.append(lambda _: run())

    def put_kernel(self, run: Callable[[Stop], object], *, may_be_taken: bool = False) -> None:
        """Collect a task that can be stopped."""
        self.tasks.append(run)

    def allocate(self, nbytes: int, pool: object) -> NoReturn:
        """Refuse."""
        raise allocation_in_graph()

    free = allocate

    def download(self, allocation: KernelMemory, offset: int, target: Bytes) -> NoReturn:
        """Refuse."""
        raise copy_to_host_in_graph()


class CpuGraph:
    """Nodes as tasks, and a topological order of them."""

    def __init__(self, nodes: Sequence[tuple[Recipe, tuple[int, ...]]]) -> None:
        self._pieces = tuple(_collect(recipe) for recipe, _ in nodes)
        self._order = _any_order([after for _, after in nodes])

    def change(self, node: int, recipe: Recipe) -> bool:
        """Replace the work of a node; launches in flight keep theirs."""
        self._pieces = (*self._pieces[:node], _collect(recipe), *self._pieces[node + 1 :])
        return True

    def launch(self, queue: CpuQueue) -> Mapping[int, BaseException]:
        """Enqueue one task that runs all nodes."""
        errors: dict[int, BaseException] = {}
        queue.put_kernel(partial(_run, self._order, self._pieces, errors))
        return errors

    def destroy(self) -> None:
        """Do nothing: Python frees the memory."""


def _collect(recipe: Recipe) -> Pieces:
    collector = _TaskCollector()
    recipe(collector)
    return tuple(collector.tasks)


def _any_order(after: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return a topological order that always takes the last node that is ready."""
    missing = [len(before) for before in after]
    behind: list[list[int]] = [[] for _ in after]
    for node, before in enumerate(after):
        for one in before:
            behind[one].append(node)
    ready = [node for node, count in enumerate(missing) if not count]
    order: list[int] = []
    while ready:
        node = ready.pop()
        order.append(node)
        for later in behind[node]:
            missing[later] -= 1
            if not missing[later]:
                ready.append(later)
    assert len(order) == len(after), "an edge points from an earlier node to a later one"
    return tuple(order)


def _run(
    order: tuple[int, ...], pieces: tuple[Pieces, ...], errors: dict[int, BaseException], stop: Stop
) -> None:
    for node in order:
        try:
            for piece in pieces[node]:
                piece(stop)
        except BaseException as error:  # noqa: BLE001 (raised to readers of its outputs)
            errors[node] = error
