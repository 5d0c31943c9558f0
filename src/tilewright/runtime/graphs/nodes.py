"""The nodes of a graph, and the backend's graph made of them.

A node is a recorded operation with its addresses resolved. The backend's graph lives until its last
replay has completed; its finaliser only appends to the deferred queue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

from tilewright.errors import LaunchError
from tilewright.runtime.devices.backend import BackendGraph, Queue, Recipe
from tilewright.runtime.devices.device import Device
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.graphs.plan import GraphPlan
from tilewright.runtime.graphs.recording import Job, RecordedUse, RepeatedWork, Tape
from tilewright.runtime.ops.call_site import CallSite
from tilewright.runtime.ops.work import DeviceWork
from tilewright.runtime.order.deferred import DeferredCall, Postponed
from tilewright.runtime.order.failure import Check, Fence

__all__ = ["Instance", "Node", "make_node"]


@dataclass(slots=True, eq=False)
class Node:
    """One operation of a graph; its check changes with its failure record."""

    label: str
    site: CallSite
    kind: object
    uses: tuple[RecordedUse, ...]
    work: DeviceWork
    check: Check | None
    kept: tuple[object, ...] = ()  # objects that the work keeps, as long as the node may run

    def recipe(self, device: Device) -> Recipe:
        """The function that puts the work on the backend's queue."""

        def put(queue: Queue[object]) -> None:
            tape = Tape(device, queue)
            self.work.enqueue(tape)
            self.kept = tuple(tape.kept)

        return put

    def renew_check(self) -> None:
        """Report to a new failure record from now on."""
        self.check = cast("RepeatedWork", self.work).renew()


def make_node(job: Job) -> Node:
    """A node for a recorded operation, whose storages are all allocated."""
    repeat = getattr(job.work, "repeated", None)
    if repeat is not None:
        work: RepeatedWork = repeat()
        return Node(job.label, job.site, work.kind, job.uses, work, job.check)
    if job.check is not None:
        raise LaunchError(
            f"{job.label}, built at {job.site}, reports failures in a place of its own and cannot"
            " be part of a graph, whose replays each need one"
        )
    return Node(job.label, job.site, type(job.work), job.uses, job.work, None)


class Instance:
    """The backend's graph of some nodes. Replays are ordered, so only the last one is tracked."""

    __slots__ = ("_graph", "_nodes", "device", "last", "launch")

    launch: Callable[[Queue[object]], Mapping[int, BaseException]]

    def __init__(self, device: Device, nodes: Sequence[Node], plan: GraphPlan) -> None:
        self.device = device
        self.last: Fence | None = None  # the end of the last replay
        self._nodes = tuple(nodes)  # which keep objects of the work alive
        recipes = [node.recipe(device) for node in nodes]
        built = device.backend.build_graph(list(zip(recipes, plan.after, strict=True)))
        self._graph: BackendGraph = built
        self.launch = built.launch  # puts all nodes on a queue, and gives the exceptions by node

    def change(self, number: int, node: Node) -> bool:
        """Give a node other work; False means that this instance is unusable."""
        if self.last is not None:
            # A replay in flight may still use the old node.
            self.last.stream.keep(self._nodes[number], until=self.last.count)
        self._nodes = (*self._nodes[:number], node, *self._nodes[number + 1 :])
        return self._graph.change(number, node.recipe(self.device))

    def mark_launched(self, stream: Stream, count: int) -> None:
        """Track the last replay: the instance is destroyed after it has completed."""
        if self.last is None or self.last.stream is not stream:
            self.last = Fence(stream, count, None)
        else:
            self.last.count = count

    def __del__(self) -> None:
        # No driver call: the collector may run this at any point.
        if getattr(self, "_graph", None) is not None:
            work = partial(_destroy, self.device, self._graph, self._nodes, self.last)
            self.device.deferred.append(DeferredCall(work, may_be_repeated=False))


def _destroy(
    device: Device, graph: BackendGraph, nodes: tuple[Node, ...], last: Fence | None
) -> None:
    """Destroy a graph if its last replay has completed, else defer this; its nodes keep objects."""
    if last is None or last.has_passed:
        graph.destroy()  # not repeated: the driver would destroy it twice
    else:
        again = DeferredCall(partial(_destroy, device, graph, nodes, last), may_be_repeated=False)
        last.stream.keep(Postponed(device, again), until=last.count)
