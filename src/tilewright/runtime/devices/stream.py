"""Streams: operations in order, counted, so that `(stream, count)` is a fence.

A stream counts its submissions and keeps a vector clock of its waits for other streams, so a wait
is inserted only if it orders new work; no event is recorded per operation. The backend's `Queue`
queues and runs the work. Counts and clocks change under the device's lock; `sync` and `wait` block
without it.
"""

from __future__ import annotations

import itertools
import sys
from collections import deque
from collections.abc import Iterable, Sequence
from sys import getrefcount
from typing import TYPE_CHECKING, Any, Protocol

from tilewright.errors import LaunchError
from tilewright.given import int_or, shown
from tilewright.native import slots_in_c
from tilewright.runtime.devices.backend import Hold, Queue, Stamp
from tilewright.runtime.devices.context import Setting
from tilewright.runtime.memory.free_list import FreeList
from tilewright.runtime.ops.inside_chains import refuse_waiting
from tilewright.runtime.ops.refusals import OnlyOne
from tilewright.runtime.order.failure import Check, Outcome

if TYPE_CHECKING:
    from tilewright.runtime.devices.device import Device

__all__ = [
    "POLL_FROM",
    "POLL_FROM_BYTES",
    "RoundRobin",
    "SchedulingPolicy",
    "SingleStream",
    "Stream",
    "ask_policy",
    "check_device",
    "check_stream",
    "find_unused",
    "stream",
    "sync_all",
]

# Number of unsettled entries, or of kept bytes, from which a submission queries the device.
POLL_FROM, POLL_FROM_BYTES = 64, 16 << 20
_REMEMBERED_FAILURES = 64
_MOST_STREAMS = 1024  # of one policy


@slots_in_c
class Stream(OnlyOne):
    """A queue of operations on one device; plain calls use the current one."""

    not_copied = "a stream is a queue of its device and is not copied: `device.new_stream()`"
    not_pickled = "a stream belongs to this process and is not pickled: `device.new_stream()` there"

    __slots__ = (
        "__weakref__", "_kept", "_unsettled", "device", "failed", "free_list", "has_loose_ends",
        "is_listed", "is_plain", "issued", "kept_bytes", "label", "may_be_sole", "queue", "waited",
    )  # fmt: skip

    def __init__(
        self,
        device: Device,
        label: str | None = None,
        queue: Queue[Any] | None = None,
        *,
        is_listed: bool = True,
    ) -> None:
        self.device = device
        self.issued = 0
        self.waited: dict[Stream, int] = {}
        self.failed: deque[Outcome] = deque(maxlen=_REMEMBERED_FAILURES)
        self._unsettled: deque[Outcome] = deque()
        self._kept: deque[tuple[int, object, int]] = deque()
        self.kept_bytes = 0  # of other libraries' memory kept only by this stream
        self.has_loose_ends = False  # objects kept, or unsettled outcomes
        self.free_list = FreeList()
        self.is_listed = is_listed
        with device.lock:
            device.check_usable()
            self.label = label or f"stream {len(device.streams)}"
            name = f"{device.name} {self.label}"
            self.queue: Queue[Any] = queue or device.backend.new_queue(name)
            # Whether work put here runs once: neither a capture stream nor captured by another
            # library.
            self.is_plain = is_listed and not self.queue.may_be_recorded
            # Whether it can be the sole stream of a timeline: no use on it can fail.
            self.may_be_sole = is_listed and not self.queue.may_raise
            if is_listed:  # included in `synchronize()`; last: a signal handler may raise before
                device.streams.append(self)

    # Under the device's lock.

    def advance(self, operations: int = 1) -> int:
        """End an operation here, or several at once; gives the count of the last one."""
        count = self.issued + operations
        self.queue.marked = count  # first: a thread that sees `issued` may wait for it
        self.issued = count
        return count

    def wait_for(self, other: Stream, count: int) -> None:
        """Order all later submissions after operation `count` of another stream."""
        if other is self or self.waited.get(other, 0) >= count or other.has_passed(count):
            return
        covered = self.queue.order_after(other.queue, count)
        self.waited[other] = covered
        if covered == other.issued:
            # All its submissions come before this stream's next one, and so do those it waited for.
            for third, reached in other.waited.items():
                if third is not self and self.waited.get(third, 0) < reached:
                    self.waited[third] = reached

    def follow(self, other: Stream) -> None:
        """Order all later submissions after all work on another stream, even uncounted work."""
        self.waited[other] = self.queue.order_after(other.queue, other.issued)

    def keep(self, thing: object, nbytes: int = 0, *, until: int = 0) -> None:
        """Keep an object alive until an operation has completed, by default the one in submission.

        `nbytes` of memory that could be reused otherwise make `settle` query the device sooner.
        """
        self._kept.append((until or self.issued + 1, thing, nbytes))
        self.kept_bytes += nbytes
        self.has_loose_ends = True

    def watch(self, count: int, check: Check | None, causes: Iterable[Outcome]) -> Outcome | None:
        """Track the outcome of an operation that can fail; None if it cannot."""
        causes = tuple(causes)
        if check is None and not causes and not self.queue.may_raise:
            return None
        outcome = Outcome(self, count, check, causes)
        self._unsettled.append(outcome)
        self.has_loose_ends = True
        return outcome

    def settle(self, *, ask: bool = True) -> None:
        """Settle completed operations, drop their objects; `ask=False` seldom queries the device.

        In a critical section no object is dropped: its finaliser may launch.
        """
        if not self.has_loose_ends:
            return
        is_crowded = len(self._unsettled) + len(self._kept) >= POLL_FROM
        if is_crowded or self.kept_bytes >= POLL_FROM_BYTES:
            done = self.queue.progress()
        else:
            done = self.queue.completed() if ask else self.queue.known
        while self.device.busy is None and (kept := self._take_kept(done)) is not None:
            self.kept_bytes -= kept[2]
            del kept  # last: its finaliser may call this again
        while (ended := self._take_unsettled(done)) is not None:
            ended.settle()
        if not (self._kept or self._unsettled):
            self.has_loose_ends = False

    # A finaliser may settle in between: the first entry is removed in the step that tests it.

    def _take_kept(self, done: int) -> tuple[int, object, int] | None:
        try:
            return self._kept.popleft() if self._kept[0][0] <= done else None
        except IndexError:
            return None

    def _take_unsettled(self, done: int) -> Outcome | None:
        try:
            return self._unsettled.popleft() if self._unsettled[0].count <= done else None
        except IndexError:
            return None

    def has_ended(self) -> bool:
        """Whether all operations submitted here have completed."""
        return self.issued == self.queue.completed()

    # Any thread may call these.

    def has_passed(self, count: int) -> bool:
        """Whether operation `count` has completed; never blocks."""
        return count <= self.queue.known or count <= self.queue.completed()

    def wait(self, count: int) -> None:
        """Block until operation `count` has completed, whether or not it failed."""
        if count > self.queue.known:
            self.device.check_usable()
            self.queue.wait(count)
        if self.has_loose_ends:
            with self.device.lock:
                self.settle()

    def make_room(self) -> None:
        """Block while too much work is queued here, unless the device's lock is held."""
        lock: Any = self.device.lock
        # The lock is held while tensors get their first contents, and by finalisers.
        if not lock._is_owned():  # noqa: SLF001 (conditions of the standard library call it, too)
            self.queue.make_room()

    def sync(self) -> None:
        """Block until all submitted work has completed; raise a failure not raised yet.

        Each failure is raised once: the next call raises the next one, if there is another.
        """
        refuse_waiting("stream.sync()")
        self.wait(self.issued)
        with self.device.lock:
            if self.failed:
                first = self.failed[0]
                rest = [outcome for outcome in self.failed if outcome.root is not first.root]
                self.failed.clear()
                self.failed.extend(rest)
                first.surface()

    def hold(self) -> Hold:
        """Stop the stream before the next submission, until released. For tests.

        A hold is an operation of its own, so a held stream is not idle.
        """
        with self.device.lock:
            made = self.queue.hold()
            self.advance()
            return made

    def stamp(self) -> Stamp:
        """Record the time when all work put so far has completed; an operation of its own."""
        with self.device.lock:
            made = self.queue.stamp()
            self.advance()
            return made

    def __cuda_stream__(self) -> tuple[int, int]:
        """The stream for other libraries: the version of this protocol, and the driver's number."""
        if not self.queue.number:
            raise TypeError(f"a stream of {self.device.name} is no CUDA stream")
        return 0, self.queue.number

    def __repr__(self) -> str:
        return f"<{self.label} of {self.device.name}, {self.issued} operations submitted>"


def sync_all(streams: Sequence[Stream]) -> None:
    """Block until all work on some streams has completed; then raise a failure not raised yet."""
    refuse_waiting("synchronize()")
    for one in streams:
        one.wait(one.issued)  # all of them, before a failure of one is raised
    for one in streams:
        one.sync()


def check_device(given: Any) -> Device:
    """A device, recognised by an attribute, since the module of devices imports this one."""
    if getattr(given, "backend", None) is None:
        raise LaunchError(
            f"a device is `tw.Device('cpu')` or the like, and {type(given).__name__} is none"
        )
    found: Device = given
    return found


def _count_alone() -> int:
    holder = [object()]
    held = holder[0]
    return getrefcount(held)


# Reference count of an object held by one local and one container.
_ALONE = _count_alone()
_is_gil_enabled = getattr(sys, "_is_gil_enabled", None)  # from Python 3.13 on
# Without the GIL a count proves nothing: another thread may be about to take a reference.
_COUNTS = _is_gil_enabled is None or _is_gil_enabled()


def find_unused(streams: list[Stream]) -> Stream | None:
    """An idle stream without references from outside. The device's lock is held."""
    if not _COUNTS:
        return None
    for number in range(len(streams)):
        streams[number].settle()
    referrers = _count_referrers(streams)
    for number in range(len(streams)):  # `enumerate` would hold a reference
        found = streams[number]
        is_alone = getrefcount(found) == _ALONE + referrers.get(id(found), 0)
        if is_alone and found.has_ended() and not found.has_loose_ends and not found.failed:
            return found
    return None


def _count_referrers(streams: list[Stream]) -> dict[int, int]:
    """The references to each stream, by its id: of its followers and of its own free list."""
    found: dict[int, int] = {}
    for one in streams:
        found[id(one)] = found.get(id(one), 0) + one.free_list.count_references()
        for other in one.waited:
            found[id(other)] = found.get(id(other), 0) + 1
    return found


def check_stream(given: Any) -> Stream:
    """A stream, if it is one of ours."""
    if not isinstance(given, Stream):
        raise LaunchError(
            f"a stream is made by `device.new_stream()`, and {type(given).__name__} is none: that"
            " of another library becomes one by `device.adopt(…)`"
        )
    return given


def stream(chosen: Stream) -> Setting[Stream]:
    """Use a stream for plain calls on its device: `with tw.stream(s): …`."""
    return check_stream(chosen).device.using(chosen)


# --- scheduling policies --------------------------------------------------------------------------

# Plain calls use the current stream of a device. An awaited operation takes the next stream of its
# device's policy, so that independent operations overlap.


class SchedulingPolicy(Protocol):
    """Chooses the stream of an operation."""

    def next_stream(self) -> Stream:
        """The stream for the next operation. Any thread may call it."""


class RoundRobin:
    """Several streams of a device in turn."""

    def __init__(self, device: Device, streams: int = 4) -> None:
        number = int_or(streams, 0)
        if number < 1:
            raise LaunchError(f"a policy needs a stream at least, not {shown(streams)}")
        if number > _MOST_STREAMS:
            raise LaunchError(
                f"a policy has {_MOST_STREAMS} streams at most, not {shown(streams)}: a device runs"
                " far fewer at once"
            )
        self._streams = tuple(check_device(device).new_stream() for _ in range(number))
        self._turns = itertools.count()

    def next_stream(self) -> Stream:
        """The next in turn."""
        return self._streams[next(self._turns) % len(self._streams)]


class SingleStream:
    """One stream for everything."""

    def __init__(self, stream: Stream) -> None:
        self._stream = check_stream(stream)

    def next_stream(self) -> Stream:
        """The only stream."""
        return self._stream


def ask_policy(policy: Any) -> Stream:
    """The next stream of a policy."""
    try:
        ask = getattr(policy, "next_stream", None)
    except Exception:  # noqa: BLE001 (of an object's own property)
        ask = None
    if not callable(ask):
        raise LaunchError(
            f"a policy gives streams by `next_stream()`, and {type(policy).__name__} has none:"
            " `tw.RoundRobin(device)` and `tw.SingleStream(stream)` are policies"
        )
    return check_stream(ask())
