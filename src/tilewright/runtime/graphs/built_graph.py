"""A built graph: its nodes, the access to its timelines, and its replays.

Each node that can fail owns a failure record. A replay reuses the records of the one before it only
if that one is known to have succeeded; otherwise every checked node gets a new record, so a failure
always belongs to one replay, whatever their number in flight. Everything but the finalisers runs
under the device's lock; these only append to the deferred queue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from tilewright.errors import BorrowError, LaunchError
from tilewright.runtime.devices.backend import BackendGraph, Queue, Recipe
from tilewright.runtime.devices.device import Device
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.graphs.access import GraphAccess, ReplayStamp
from tilewright.runtime.graphs.plan import GraphPlan, make_plan
from tilewright.runtime.graphs.recording import (
    Job,
    RecordedUse,
    RepeatedWork,
    Tape,
)
from tilewright.runtime.interop.foreign import ForeignStorage
from tilewright.runtime.interop.streams import find_speakers
from tilewright.runtime.interop.torch_tensors import TORCH, TorchLibrary
from tilewright.runtime.ops.call_site import CallSite
from tilewright.runtime.ops.work import DeviceWork
from tilewright.runtime.order.borrow import Holder, refusal
from tilewright.runtime.order.critical import insist
from tilewright.runtime.order.deferred import DeferredCall, Postponed
from tilewright.runtime.order.failure import Check, Fence, Outcome
from tilewright.runtime.order.timeline import Conflict

__all__ = ["BuiltGraph", "ForeignArrays", "Node", "allocate_jobs"]


@dataclass(slots=True, eq=False)
class Node:
    """One recorded operation with its addresses resolved.

    Its check changes with its failure record.
    """

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


def _make_node(job: Job) -> Node:
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


class _Instance:
    """The backend's graph of some nodes, which lives until its last replay has completed.

    Replays are ordered, so only the last one is tracked.
    """

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


class BuiltGraph:
    """A graph whose block has ended; replays keep it alive."""

    __slots__ = (
        "__weakref__", "_broken", "_fallible", "_instance", "_last", "_may_raise", "_plan",
        "_replays", "access", "device", "foreign", "nodes",
    )  # fmt: skip

    def __init__(self, device: Device, jobs: Sequence[Job]) -> None:
        self.device = device
        self._may_raise: bool = device.stream.queue.may_raise
        # The failure that left the backend's graph half changed.
        self._broken: BaseException | None = None
        self._last: list[Outcome] = []  # of the checked nodes, in the last replay
        self._replays: deque[Outcome] = deque()  # whose failure may not have been raised yet
        nodes = tuple(_make_node(job) for job in jobs)
        plan = self._make_plan(nodes)
        self._instance = _Instance(device, nodes, plan)
        self._adopt(nodes, plan)

    def _adopt(self, nodes: tuple[Node, ...], plan: GraphPlan) -> None:
        self.nodes, self._plan = nodes, plan
        self._fallible = [number for number, node in enumerate(nodes) if self._can_fail(node)]
        self.foreign = ForeignArrays(use for node in nodes for use in node.uses)
        is_simple = not self._fallible and not self.foreign
        self.access = GraphAccess(plan.members, is_simple=is_simple)

    def _make_plan(self, nodes: Sequence[Node]) -> GraphPlan:
        return make_plan([node.uses for node in nodes], [self._can_fail(node) for node in nodes])

    def _can_fail(self, node: Node) -> bool:
        return self._may_raise or node.check is not None

    # --- a replay that is built ---

    def acquire(self, holder: Holder) -> None:
        """Let a built replay hold the access, if no borrow and no other replay conflicts."""
        self._check_usable()
        self._report()
        refused = self._refusal(holder)
        if refused is not None and self.device.collect_dropped():
            refused = self._refusal(holder)
        if refused is not None:
            raise BorrowError(refused)
        self.access.holders.append(holder)

    def _refusal(self, holder: Holder) -> str | None:
        built = self.access.first_conflict()
        if built is not None:
            return refusal(Conflict(built, "", writes=True), "its tensors", holder, writes=True)
        for access in self.access.due():
            storage, timeline = access.member.storage, access.timeline
            for region, writes in access.member.claims:
                held = timeline.conflict(region, writes=writes)
                if held is not None:
                    return refusal(held, held.name or storage.label, holder, writes=writes)
            for region, _, hidden in access.member.inputs:
                timeline.upstream(region, hidden)
        return None

    def _report(self) -> None:
        """Raise the failure of an earlier replay, if it is known and has not been raised."""
        while self._replays:
            outcome = self._replays[0]
            if not outcome.settled:
                if not outcome.stream.has_passed(outcome.count):
                    return
                outcome.settle()
            self._replays.popleft()
            if outcome.error is not None and outcome.root in self.device.unseen:
                outcome.surface()

    def _check_usable(self) -> None:
        if self._broken is not None:
            raise LaunchError(
                f"this graph could not be changed ({self._broken}) and is in between: record it"
                " again"
            ) from self._broken

    # --- a replay that is submitted ---

    def replay_again(self, stream: Stream) -> int:
        """Launch all nodes behind the last replay, on the quick stream; gives the count."""
        access = self.access
        try:
            self._instance.launch(stream.queue)
            stream.queue.marked = stream.issued = count = stream.issued + 1
            access.leave_again(stream, count)
        except BaseException as error:
            self._leave_refused(stream, error)
            raise
        self._instance.mark_launched(stream, count)
        return count

    def replay(self, stream: Stream, end_at: Callable[[Fence], object]) -> None:
        """Launch all nodes on a stream, behind conflicting uses; `end_at` gets the fence."""
        self._check_usable()
        self.foreign.check_places()
        self._renew_checks()
        doubts = self.access.order(stream)
        tail, errors = stream.queue.tail, None
        try:
            errors = self._instance.launch(stream.queue)
            self._end(stream, errors, doubts, end_at)
        except BaseException as error:
            if isinstance(error, Exception) or (errors is None and stream.queue.tail is not tail):
                self._leave_refused(stream, error)  # perhaps in part
            elif errors is not None:
                insist(partial(self._end, stream, errors, doubts, end_at))
            raise

    def _end(
        self,
        stream: Stream,
        errors: Mapping[int, BaseException],
        doubts: dict[int, list[Outcome]],
        end_at: Callable[[Fence], object],
    ) -> None:
        self.foreign.note_writes()
        end_at(self._stamp(stream, errors, doubts))

    def _leave_refused(self, stream: Stream, error: BaseException) -> None:
        # Some nodes may be on the stream: later uses are ordered behind them, and outputs have
        # failed.
        count = stream.advance()
        refused = Outcome.refused(stream, count, error)
        self._instance.mark_launched(stream, count)
        self.access.leave(ReplayStamp(stream, count, {}, refused))

    def _stamp(
        self, stream: Stream, errors: Mapping[int, BaseException], doubts: dict[int, list[Outcome]]
    ) -> Fence:
        count = stream.advance()
        whole = stream.watch(count, None, ())  # an error of the queue itself concerns every node
        causes = () if whole is None else (whole,)
        self._last = []
        for number in self._fallible:
            check = self.nodes[number].check
            ended = stream.watch(count, partial(_failure, errors, number, check), causes)
            assert ended is not None, "a node with a check is watched"
            doubts[1 << number] = [ended]
            if check is not None:
                self._last.append(ended)
        self.access.leave(ReplayStamp(stream, count, doubts))
        all_doubts = [outcome for outcomes in doubts.values() for outcome in outcomes]
        total = stream.watch(count, None, (*causes, *all_doubts))
        if total is not None:
            self._replays.append(total)
        self._instance.mark_launched(stream, count)
        return Fence(stream, count, total)

    def _renew_checks(self) -> None:
        """Give checked nodes new records, unless the last replay is known to have written none."""
        if not self._last:
            return
        self._last[0].stream.settle()
        if all(outcome.settled and outcome.error is None for outcome in self._last):
            return
        try:
            for number in self._fallible:
                node = self.nodes[number]
                if node.check is not None:
                    node.renew_check()
                    changed = self._instance.change(number, node)
                    assert changed, "another record is the same kind of work"
        # After an exception of a signal handler the next replay repeats this.
        except Exception as error:
            self._break(error)
            raise

    def _break(self, error: BaseException) -> None:
        """Mark the backend's graph as half changed: it is not launched again."""
        self._broken = error
        self.access.quick_stream = None

    # --- another node ---

    def update(self, number: int, job: Job, by: Holder) -> None:
        """Give a node the work of another operation of the same kind."""
        self._check_usable()
        if self.access.holders:
            self.device.collect_dropped()
        if self.access.holders:
            held = Conflict(self.access.holders[0], "", writes=True)
            raise BorrowError(refusal(held, "the graph", by, writes=True))
        node = _make_node(job)
        if node.kind != self.nodes[number].kind:
            raise LaunchError(
                f"node {number} of the graph, recorded at {self.nodes[number].site}, runs"
                f" {self.nodes[number].label} compiled for other arguments than {job.label}, built"
                f" at {job.site}: give tensors of the same dtypes and strides, whose extents and"
                " addresses divide alike, or record the graph again"
            )
        nodes = (*self.nodes[:number], node, *self.nodes[number + 1 :])
        plan = self._make_plan(nodes)
        access, is_changed = self.access, False
        try:
            self._exchange(number, nodes, plan)
            is_changed = True
            self._move_on(access, nodes, plan)
        except BaseException:
            if is_changed:
                insist(partial(self._move_on, access, nodes, plan))
            raise

    def _move_on(self, before: GraphAccess, nodes: tuple[Node, ...], plan: GraphPlan) -> None:
        """Replace the access by one to the timelines of the changed nodes."""
        before.dissolve()
        if self.access is before:
            self._adopt(nodes, plan)

    def _exchange(self, number: int, nodes: tuple[Node, ...], plan: GraphPlan) -> None:
        """Change the backend's graph in place if its edges stay the same, else build another."""
        in_place = plan.after == self._plan.after
        try:
            in_place = in_place and self._instance.change(number, nodes[number])
            if not in_place:
                self._instance = _Instance(self.device, nodes, plan)
        except BaseException as error:
            if in_place:
                self._change_back(number, error)
            raise

    def _change_back(self, number: int, error: BaseException) -> None:
        """Give a node its former work, after a change of it has failed."""
        try:
            is_back = self._instance.change(number, self.nodes[number])
        except BaseException:
            self._break(error)
            raise
        if not is_back:
            self._break(error)

    def __del__(self) -> None:
        # No lock: the collector may run this at any point.
        if getattr(self, "access", None) is not None:
            self.device.deferred.append(DeferredCall(self.access.dissolve))  # it keeps the storages


class ForeignArrays:
    """The arrays of other libraries that the nodes of a graph use, checked in every replay.

    Each may have been moved or shrunk since it was recorded, and written ones get a new version.
    """

    __slots__ = ("_all", "_told", "_versions", "speakers")

    def __init__(self, uses: Iterable[RecordedUse]) -> None:
        written: dict[ForeignStorage, bool] = {}
        for use in uses:
            if isinstance(use.storage, ForeignStorage):
                written[use.storage] = use.mode.writes or written.get(use.storage, False)
        self._all = tuple(written)
        told = [storage for storage, is_written in written.items() if is_written]
        # torch raises the versions of many tensors in one call; several nodes may write one tensor.
        torchs = [one.producer.array for one in told if isinstance(one.producer, TorchLibrary)]
        versions = {id(array): array for array in torchs if not array.is_inference()}
        self._versions: tuple[Any, ...] = tuple(versions.values())
        self._told = tuple(one for one in told if not isinstance(one.producer, TorchLibrary))
        self.speakers = find_speakers(self._all)  # they name the streams of all libraries

    def __len__(self) -> int:
        return len(self._all)

    def check_places(self) -> None:
        """Refuse a replay if an array has been moved, or its memory has shrunk."""
        for storage in self._all:
            storage.check_there()

    def note_writes(self) -> None:
        """Tell the libraries that contents have changed."""
        if self._versions:
            TORCH.raise_versions(self._versions)
        for storage in self._told:
            storage.note_write()


def allocate_jobs(device: Device, jobs: Sequence[Job]) -> None:
    """Allocate and initialise lazy tensors, before the critical section."""
    stream = device.stream
    for job in jobs:
        for use in job.uses:
            use.storage.materialise(stream)


def _failure(
    errors: Mapping[int, BaseException], number: int, check: Check | None
) -> BaseException | None:
    """The failure of one node in one replay."""
    return errors.get(number) or (None if check is None else check())
