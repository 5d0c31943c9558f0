"""A built graph: its nodes, the access to its timelines, and its replays.

Each node that can fail owns a failure record. A replay reuses the records of the one before it only
if that one is known to have succeeded; otherwise every checked node gets a new record, so a failure
always belongs to one replay, whatever their number in flight. Everything but the finaliser runs
under the device's lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from tilewright.errors import BorrowError, LaunchError
from tilewright.runtime.devices.device import Device
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.graphs.access import GraphAccess, ReplayStamp
from tilewright.runtime.graphs.nodes import Instance, Node, make_node
from tilewright.runtime.graphs.plan import GraphPlan, make_plan
from tilewright.runtime.graphs.recording import Job, RecordedUse, refuse_recorded
from tilewright.runtime.interop.foreign import ForeignStorage
from tilewright.runtime.interop.streams import find_speakers
from tilewright.runtime.interop.torch_tensors import TORCH, TorchLibrary
from tilewright.runtime.order.borrow import Holder, refusal
from tilewright.runtime.order.deferred import DeferredCall
from tilewright.runtime.order.failure import Check, Fence, Outcome
from tilewright.runtime.order.insisting import insist
from tilewright.runtime.order.timeline import Conflict

__all__ = ["BuiltGraph", "ForeignArrays", "allocate_jobs"]


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
        nodes = tuple(make_node(job) for job in jobs)
        plan = self._make_plan(nodes)
        self._instance = Instance(device, nodes, plan)
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

    def refuse_recorded(self, label: str) -> None:
        """Refuse a replay inside a block that records writes to the same memory."""
        members = [access.member for access in self.access.timelines]
        refuse_recorded(((m.storage, c.region) for m in members for c in m.claims), label)

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
        """Launch all nodes behind the last replay, where the access is calm; gives the count."""
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
        self.access.calm = None

    # --- another node ---

    def update(self, number: int, job: Job, by: Holder) -> None:
        """Give a node the work of another operation of the same kind."""
        self._check_usable()
        if self.access.holders:
            self.device.collect_dropped()
        if self.access.holders:
            held = Conflict(self.access.holders[0], "", writes=True)
            raise BorrowError(refusal(held, "the graph", by, writes=True))
        node = make_node(job)
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
            access.close(by)
            self._exchange(number, nodes, plan)
            is_changed = True
            self._move_on(access, nodes, plan)
        except BaseException:
            if is_changed:
                insist(partial(self._move_on, access, nodes, plan))
            else:
                access.reopen(by)
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
                self._instance = Instance(self.device, nodes, plan)
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
