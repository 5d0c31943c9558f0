"""A graph that has been built: its nodes, the lease on its storages, and what a replay does.

Each node that can fail owns a failure record. A replay uses the records of the one before it only
if that one is known to have ended well; otherwise every checked node gets a new one, so a failure
always belongs to one replay, however many are under way. Everything but the finaliser happens under
the device's lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from tilewright.errors import BorrowError, LaunchError
from tilewright.runtime.devices.device import Device
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.graphs.guests import GraphGuests
from tilewright.runtime.graphs.leases import Claim, Lease, Stamp
from tilewright.runtime.graphs.nodes import Instance, Node, make_node
from tilewright.runtime.graphs.plan import Plan, make_plan
from tilewright.runtime.graphs.recording import Job, refuse_recorded
from tilewright.runtime.order.access import refusal
from tilewright.runtime.order.alone import alone
from tilewright.runtime.order.borrows import Holder
from tilewright.runtime.order.failure import Check, Fence, Outcome
from tilewright.runtime.order.insisting import insist

__all__ = ["BuiltGraph"]


class BuiltGraph:
    """What a graph is once its block has ended; replays keep it alive."""

    __slots__ = (
        "__weakref__", "_broken", "_fallible", "_instance", "_last", "_may_raise", "_plan",
        "_replays", "claim", "device", "guests", "lease", "nodes",
    )  # fmt: skip

    def __init__(self, device: Device, jobs: Sequence[Job]) -> None:
        self.device = device
        self._may_raise: bool = device.stream.queue.may_raise
        self._broken: BaseException | None = None  # why the backend's graph is in between
        self._last: list[Outcome] = []  # of the checked nodes, in the last replay
        self._replays: deque[Outcome] = deque()  # that may have failed with nobody told
        _allocate(device, jobs)
        nodes = tuple(make_node(job) for job in jobs)
        plan = self._make_plan(nodes)
        self._instance = Instance(device, nodes, plan)
        self._adopt(nodes, plan)

    def _adopt(self, nodes: tuple[Node, ...], plan: Plan) -> None:
        self.nodes, self._plan = nodes, plan
        self._fallible = [number for number, node in enumerate(nodes) if self._can_fail(node)]
        self.guests = GraphGuests(use for node in nodes for use in node.uses)
        is_simple = not self._fallible and not self.guests
        lease = Lease(plan.members, is_simple=is_simple)
        self.lease = lease
        self.claim: Claim = (lease, self.device)  # of all its replays

    def _make_plan(self, nodes: Sequence[Node]) -> Plan:
        return make_plan([node.uses for node in nodes], [self._can_fail(node) for node in nodes])

    def _can_fail(self, node: Node) -> bool:
        return self._may_raise or node.check is not None

    # --- a replay that is built ---

    def acquire(self, holder: Holder) -> None:
        """Let a built replay hold the lease, if nothing stands against it."""
        alone(self.device, self._acquire, holder)

    def _acquire(self, holder: Holder) -> None:
        self._check_usable()
        self._report()
        refused = self._find_conflict(holder)
        if refused is not None and self.device.collect_dropped():
            refused = self._find_conflict(holder)  # anywhere: what was dropped may have built more
        if refused is not None:
            raise BorrowError(refused)
        device, lease = self.device, self.lease  # from here on as a replay that need not look
        if lease.at_home and device.latest is None:
            device.latest = self.claim
        lease.holders.append(holder)
        device.replays += 1
        if lease.at_home and device.latest is not self.claim:
            lease.tell(self.claim)

    def _find_conflict(self, holder: Holder) -> str | None:
        """Why a replay cannot be built; looks again if something was built meanwhile."""
        device = self.device
        seen: tuple[int, int] | None = None
        while device.latest is not None or (device.epoch, device.replays) != seen:
            device.tell_latest()
            seen = device.epoch, device.replays
            refused = self._refusal(holder)
            if refused is not None:
                return refused
        return None

    def _refusal(self, holder: Holder) -> str | None:
        rival = self.lease.first_rival()
        if rival is not None:
            return refusal(rival, "its tensors", True, holder, True)
        for share in self.lease.due():
            storage = share.member.storage
            for region, writes in share.member.claims:
                held = storage.borrowed_against(region, writes=writes)
                if held is not None:
                    name = held.name or storage.label
                    return refusal(held.holder, name, held.writes, holder, writes)
            for region, _, hidden in share.member.inputs:
                storage.doubts(region, hidden)
        return None

    def refuse_recorded(self, label: str) -> None:
        """Refuse a replay inside a block on what is being recorded there."""
        members = [share.member for share in self.lease.shares]
        refuse_recorded(((m.storage, c.region) for m in members for c in m.claims), label)

    def release(self, holder: Holder) -> None:
        """Give the lease back."""
        if holder in self.lease.holders:
            self.lease.holders.remove(holder)
        if self.device.latest is self.claim:
            self.device.latest = None

    def _report(self) -> None:
        """Raise the failure of an earlier replay, if it is known and nobody has been told."""
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
        """Put all nodes behind the last replay, where the lease is calm; gives its count."""
        lease = self.lease
        try:
            self._launch(stream)
            stream.queue.marked = stream.issued = count = stream.issued + 1
            stamp = lease.stamp
            if stamp is None or stamp.is_seen or stamp.stream is not stream:
                lease.stamp = Stamp(stream, count, {})
            else:
                stamp.count = count
            if lease.rivals:
                lease.overtake(stream)
        except BaseException as error:
            self._leave_refused(stream, error)
            raise
        self._instance.mark_launched(stream, count)
        return count

    def _launch(self, stream: Stream) -> Mapping[int, BaseException]:
        """Launch the backend's graph; gives what its nodes raise.

        Where nothing has to be looked at, a finaliser may replay it in the middle of that, if it
        writes nothing. The last stamp stands for all replays, so this one comes behind that one.
        """
        before = self.lease.stamp
        errors = self._instance.launch(stream.queue)
        stamp = self.lease.stamp
        if stamp is not before and stamp is not None:
            alone(self.device, stream.wait_for, stamp.stream, stamp.count)
        return errors

    def replay(self, stream: Stream, end_at: Callable[[Fence], object]) -> None:
        """Put all nodes on a stream, behind whatever they conflict with, and tell where it ends."""
        self._check_usable()
        self.guests.check_places(stream)
        self._renew_checks()
        doubts = self.lease.order(stream)
        tail, errors = stream.queue.tail, None
        try:
            errors = self._launch(stream)
            self._end(stream, errors, doubts, end_at)
        except BaseException as error:
            if isinstance(error, Exception) or (errors is None and stream.queue.tail is not tail):
                self._leave_refused(stream, error)  # perhaps not as a whole
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
        self.guests.note_writes()
        end_at(self._stamp(stream, errors, doubts))

    def _leave_refused(self, stream: Stream, error: BaseException) -> None:
        alone(self.device, self._stamp_refused, stream, error)

    def _stamp_refused(self, stream: Stream, error: BaseException) -> None:
        # Part of it may be on the stream already: order it, and trust nothing it wrote.
        count = stream.advance()
        refused = Outcome.refused(stream, count, error)
        self._instance.mark_launched(stream, count)
        self.lease.leave(Stamp(stream, count, {}, refused))

    def _stamp(
        self, stream: Stream, errors: Mapping[int, BaseException], doubts: dict[int, list[Outcome]]
    ) -> Fence:
        count = stream.advance()
        whole = stream.watch(count, None, ())  # what the queue itself raises concerns every node
        causes = () if whole is None else (whole,)
        self._last = []
        for number in self._fallible:
            check = self.nodes[number].check
            ended = stream.watch(count, partial(_failure, errors, number, check), causes)
            assert ended is not None, "what has a check is watched"
            doubts[1 << number] = [ended]
            if check is not None:
                self._last.append(ended)
        self.lease.leave(Stamp(stream, count, doubts))
        all_doubts = [outcome for outcomes in doubts.values() for outcome in outcomes]
        total = stream.watch(count, None, (*causes, *all_doubts))
        if total is not None:
            self._replays.append(total)
        self._instance.mark_launched(stream, count)
        return Fence(stream, count, total)

    def _renew_checks(self) -> None:
        """Give checked nodes new records, unless the last replay has left theirs untouched."""
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
        except Exception as error:  # what a signal raises is made good by the next replay
            self._break(error)
            raise

    def _break(self, error: BaseException) -> None:
        """The backend's graph is in between, and is not to be launched again."""
        self._broken = error
        self.lease.calm = None

    # --- another node ---

    def update(self, number: int, job: Job, by: Holder) -> None:
        """Give a node the work of another operation of the same kind."""
        self._check_usable()
        _allocate(self.device, (job,))  # first: others may do something meanwhile
        if self.lease.holders:
            self.device.collect_dropped()
        if self.lease.holders:
            raise BorrowError(refusal(self.lease.holders[0], "the graph", True, by, True))
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
        lease, is_changed = self.lease, False
        try:
            lease.close(by)
            self._exchange(number, nodes, plan)
            is_changed = True
            self._move_on(lease, nodes, plan)
        except BaseException:
            if is_changed:
                insist(partial(self._move_on, lease, nodes, plan))
            else:
                lease.reopen(by)
            raise

    def _move_on(self, before: Lease, nodes: tuple[Node, ...], plan: Plan) -> None:
        """Have a lease for other nodes, in the place of the one before."""
        before.dissolve()
        if self.lease is before:
            self._adopt(nodes, plan)

    def _exchange(self, number: int, nodes: tuple[Node, ...], plan: Plan) -> None:
        """Change the backend's graph in place if its edges stay, else build another."""
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
        """Give a node the work it had before, as a change of it has come to nothing."""
        try:
            is_back = self._instance.change(number, self.nodes[number])
        except BaseException:
            self._break(error)
            raise
        if not is_back:
            self._break(error)

    def __del__(self) -> None:
        # No lock here: the collector may run this anywhere.
        if getattr(self, "lease", None) is not None:
            self.device.notes.append(_Dropped(self.lease, self.device))


class _Dropped(NamedTuple):
    """The lease of a graph that is gone; until it is settled the storages stay."""

    lease: Lease
    device: Device
    may_be_repeated: bool = True

    def settle(self) -> None:
        """Hand the fences of replays over to the storages, which may go then."""
        alone(self.device, self.lease.dissolve)


def _allocate(device: Device, jobs: Sequence[Job]) -> None:
    """Give lazy tensors their bytes and first contents."""
    stream = device.stream
    for job in jobs:
        for use in job.uses:
            use.storage.materialise(stream)


def _failure(
    errors: Mapping[int, BaseException], number: int, check: Check | None
) -> BaseException | None:
    """How one node of one replay failed."""
    return errors.get(number) or (None if check is None else check())
