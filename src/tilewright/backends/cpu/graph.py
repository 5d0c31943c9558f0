"""Graphs on the CPU: one task that runs the nodes one by one, in an order that their edges allow.

A node that raises stops no other, as an operation stops no other in a queue. Of the nodes that may
run, the one recorded last goes first: a GPU may take any of them, and an edge that is missing
should show here as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NoReturn

from tilewright.backends.cpu.memory import Memory
from tilewright.backends.cpu.stopping import Stop
from tilewright.backends.cpu.stream import CpuQueue
from tilewright.backends.cpu.tasks import Tasks
from tilewright.runtime.devices.backend import Bytes, Recipe
from tilewright.runtime.graphs.refused import allocation_in_graph, copy_to_host_in_graph

__all__ = ["CpuGraph"]

# The work of a node, in order; what cannot be stopped takes no notice.
Pieces = tuple[Callable[[Stop], object], ...]


class _Collector(Tasks):
    """Takes work as a queue does, and only keeps it."""

    def __init__(self) -> None:
        self.tasks: list[Callable[[Stop], object]] = []

    def put(self, run: Callable[[], object], *, repeatable: bool = False) -> None:
        """Keep a task."""
        del repeatable
        self.tasks.append(lambda _: run())

    def put_kernel(self, run: Callable[[Stop], object]) -> None:
        """Keep a task that ends when it is told to."""
        self.tasks.append(run)

    def allocate(self, nbytes: int, pool: object) -> NoReturn:
        """Refused."""
        raise allocation_in_graph()

    free = allocate

    def download(self, allocation: Memory, offset: int, target: Bytes) -> NoReturn:
        """Refused."""
        raise copy_to_host_in_graph()


class CpuGraph:
    """Nodes as tasks, and an order in which to run them."""

    def __init__(self, nodes: Sequence[tuple[Recipe, tuple[int, ...]]]) -> None:
        self._pieces = tuple(_collect(recipe) for recipe, _ in nodes)
        self._order = _any_order([after for _, after in nodes])

    def change(self, node: int, recipe: Recipe) -> bool:
        """Give a node other work; launches under way keep theirs."""
        self._pieces = (*self._pieces[:node], _collect(recipe), *self._pieces[node + 1 :])
        return True

    def launch(self, queue: CpuQueue) -> Mapping[int, BaseException]:
        """Put one task that runs them all."""
        errors: dict[int, BaseException] = {}
        queue.put_kernel(partial(_run, self._order, self._pieces, errors))
        return errors

    def destroy(self) -> None:
        """Nothing but memory, which Python frees."""


def _collect(recipe: Recipe) -> Pieces:
    collector = _Collector()
    recipe(collector)
    return tuple(collector.tasks)


def _any_order(after: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """An order that the edges allow: the last of the nodes that may run, each time."""
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
        except BaseException as error:  # noqa: BLE001 (raised to whoever reads what it wrote)
            errors[node] = error
