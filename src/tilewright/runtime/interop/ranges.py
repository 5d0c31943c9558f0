"""Groups of ranges: addresses of other libraries' arrays, and the timeline of each group.

There is one table for the process. Ranges that overlap, or are bridged by a third, form a *group*,
which is their common timeline. A group is in the table while a handle, a built operation or an
unfinished one uses it. Its producer is kept as long, unless the library itself keeps the memory
from reuse: then only the range is remembered, and a later array at that address is ordered behind
its uses. Most addresses recur, so remembered ranges are searched for completed ones only when there
are many; a completed one is also dropped when an array with another range overlaps it. The wrappers
of a group that has ended join another one at their next use. Groups change under the device's lock,
in a critical section.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from typing import Any, NamedTuple, Protocol
from weakref import ref

from tilewright.errors import LaunchError
from tilewright.runtime.devices.device import Device
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.order.deferred import Postponed
from tilewright.runtime.order.timeline import Borrows, Timeline

__all__ = ["MANY_LEFT", "RANGES", "Group", "Left", "Owner", "RangeMember", "leave"]

_CROWD = 16  # members from which dead ones are dropped
# Remembered ranges of one device from which completed ones are dropped.
MANY_LEFT = 8192


class RangeMember(Protocol):
    """The part of a storage that a group needs."""

    @property
    def device(self) -> Device:
        """The device of the memory."""

    @property
    def label(self) -> str:
        """The name in messages."""

    @property
    def is_counted(self) -> bool:
        """Whether it keeps its array, so that its life counts as a use of the range."""

    @property
    def has_memory(self) -> bool:
        """Whether the memory still belongs to the array of the last use."""

    timeline: Timeline


class Owner(Protocol):
    """The library that owns the memory."""

    @property
    def comes_back(self) -> bool:
        """Whether its allocator reuses memory, so that addresses recur."""

    def hand_back(self, streams: tuple[Stream, ...]) -> bool:
        """Whether the library keeps the memory from reuse until these streams have passed."""

    def find_memory(self) -> ref[Any] | None:
        """A weak reference to the memory of the array, if its library allows one."""


class Group(Timeline):
    """Ranges that overlap or are bridged, and the timeline that their storages share."""

    __slots__ = ("_crowd", "count", "high", "is_ended", "is_left", "left", "low", "members")

    def __init__(self, device: Device, low: int, high: int) -> None:
        super().__init__(device)
        self.low = low
        self.high = high
        self.members: list[ref[RangeMember]] = []
        self.count = 0  # storages that keep their arrays
        self.left: list[ref[Any]] = []  # memory of dropped storages whose contents may have failed
        self.is_left = False  # in the list of remembered ranges
        self.is_ended = False  # unused, and removed from the table
        self._crowd = _CROWD

    def take_in(self, other: Group) -> None:
        """Merge a group that has been bridged into this one."""
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        self.merge(other)
        self.count += other.count
        self.left += other.left
        for one in other.members:
            member = one()
            if member is not None:
                self.members.append(one)
                member.timeline = self
        other.members.clear()

    def admit(self, member: RangeMember) -> None:
        """Add a storage, and drop dead ones if there are many."""
        self.members.append(ref(member))
        self.count += member.is_counted
        if len(self.members) > self._crowd:
            self.members = [one for one in self.members if one() is not None]
            self._crowd = max(_CROWD, 2 * len(self.members))

    def end(self) -> None:
        """Drop all uses: the next build with a wrapper of this group joins another one."""
        self.is_ended = True
        self.held, self.stream = Borrows(), None
        self._keep([])
        self.members.clear()

    def living(self) -> list[RangeMember]:
        """The storages that keep their arrays."""
        members = [member for one in self.members if (member := one()) is not None]
        return [member for member in members if member.is_counted]

    def pending(self) -> tuple[Stream, ...]:
        """Streams with operations not known to have completed; queries no device."""
        found: dict[Stream, None] = {}
        for use in self.uses:
            if use.count > use.stream.queue.known:
                found[use.stream] = None
        return tuple(found)

    @property
    def is_over(self) -> bool:
        """Whether the memory has no use, and no living array has contents that failed."""
        if self.count or self.held or self.graphs or self.pending():
            return False
        return not self._may_have_failed()

    def _may_have_failed(self) -> bool:
        """Whether contents of a living array have failed, or may have."""
        if not self.has_failures():
            return False
        members = [member for one in self.members if (member := one()) is not None]
        if any(member.has_memory for member in members):
            return True
        return any(memory() is not None for memory in self.left)

    def has_failures(self) -> bool:
        """Whether a write failed, or may have."""
        outcomes = [use.outcome for use in self.uses if use.writes and use.outcome is not None]
        return any(not outcome.settled or outcome.error is not None for outcome in outcomes)

    def is_stale(self, low: int, high: int) -> bool:
        """Whether it is over and does not serve an array of the given range.

        A group of exactly this range that has a sole stream, or no uses, serves it again.
        """
        is_usable = self.stream is not None or not self.uses
        if is_usable and self.low == low and self.high == high:
            return False
        return self.is_over


class _Remembered:
    """Ranges of one device that only unfinished operations use."""

    __slots__ = ("groups", "many")

    def __init__(self) -> None:
        self.groups: list[Group] = []
        self.many = MANY_LEFT

    def add(self, group: Group) -> bool:
        """Remember a range; gives whether completed ones should be dropped now."""
        if not group.is_left and not group.count:
            group.is_left = True
            self.groups.append(group)
        return len(self.groups) >= self.many

    def take_out(self) -> list[Group]:
        """Remove and give the ranges that are over, after querying the streams."""
        for stream in {stream for group in self.groups for stream in group.pending()}:
            stream.queue.progress()
        over = []
        groups, self.groups = self.groups, []
        for group in groups:
            if group.count or group.heir is not None or group.is_over:
                group.is_left = False
                over.append(group)
            else:
                self.groups.append(group)
        self.many = max(MANY_LEFT, 2 * len(self.groups))
        return over


class _Ranges:
    """The groups in order of their addresses; they do not overlap."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Renew the lock: after a fork no thread is left to release a held one."""
        self._lock = threading.RLock()
        if not hasattr(self, "groups"):
            self.groups: list[Group] = []
            self._lows: list[int] = []
            self._remembered: dict[Device, _Remembered] = {}

    def join(self, member: RangeMember, low: int, high: int, *, forgets: bool = True) -> None:
        """Give a storage the group of its range: an existing one, several merged, or a new one.

        Groups that are over are dropped by default: merging them would leave few, large groups.
        """
        with self._lock:
            found = self._meet(member, low, high, forgets=forgets)
            found.admit(member)
            member.timeline = found

    def _meet(self, member: RangeMember, low: int, high: int, *, forgets: bool) -> Group:
        first, last = self._overlapping(low, high)
        if first != last and forgets:
            last = self._drop_over(member.device, low, high, slice(first, last))
        if first != last:
            return self._joined(member, range(low, high), slice(first, last))
        made = Group(member.device, low, high)
        # No calls: a signal handler raises before both assignments or after them.
        self.groups[first:first] = [made]
        self._lows[first:first] = [low]
        return made

    def _drop_over(self, device: Device, low: int, high: int, place: slice) -> int:
        """Drop the groups in a slice that are over; gives the end of the remaining slice."""
        last: int = place.stop
        for at in reversed(range(place.start, last)):
            group = self.groups[at]
            if group.device is device and group.is_stale(low, high):
                self._take_out(at)
                last -= 1
        return last

    def _take_out(self, at: int) -> None:
        self.groups[at].end()  # first: a signal handler may raise in between
        del self.groups[at], self._lows[at]

    def _joined(self, member: RangeMember, span: range, place: slice) -> Group:
        """One group in place of those that a range overlaps, extended to the range."""
        device = member.device
        met = []
        for group in self.groups[place]:
            if group.device is device:
                met.append(group)
            elif not group.is_over:
                raise LaunchError(
                    f"{member.label} lies in memory that {group.device.name} uses, too, and"
                    f" would be used by {device.name}: two devices have no order, so"
                    " drop the tensors of one of them first"
                )
        found = met[0] if met else Group(device, span.start, span.stop)
        for other in met[1:]:
            found.take_in(other)
        found.low, found.high = min(found.low, span.start), max(found.high, span.stop)
        for group in self.groups[place]:
            if group.device is not device:
                group.end()
        self.groups[place] = [found]
        self._lows[place] = [found.low]
        return found

    def end(self, group: Group) -> None:
        """Drop a group without uses from the table."""
        with self._lock:
            at = bisect_left(self._lows, group.low)
            if at < len(self.groups) and self.groups[at] is group and group.is_over:
                self._take_out(at)

    def remember(self, group: Group) -> None:
        """Remember a range that only unfinished operations use."""
        remembered = self._remembered.get(group.device)
        if remembered is None:
            remembered = self._remembered.setdefault(group.device, _Remembered())
        if remembered.add(group) and not _is_recorded(group.device):
            for one in remembered.take_out():
                self.end(one)

    def _overlapping(self, low: int, high: int) -> tuple[int, int]:
        first = last = bisect_right(self._lows, low)
        if first and self.groups[first - 1].high > low:
            first -= 1
        if last < len(self._lows) and self._lows[last] < high:
            last = bisect_left(self._lows, high)
        return first, last


def _is_recorded(device: Device) -> bool:
    """Whether another library captures a graph: querying a stream could invalidate it."""
    return any(not one.is_plain and one.queue.is_capturing() for one in device.streams)


# The table of the process.
RANGES = _Ranges()


class Left:
    """Deferred work: a dropped storage, whose producer is kept until no operation uses the memory.

    A producer whose library keeps the memory from reuse is dropped at once: then only the range is
    remembered.
    """

    __slots__ = ("group", "may_be_repeated", "nbytes", "producer")

    def __init__(self, group: Group, producer: Owner, nbytes: int) -> None:
        self.group = group
        self.producer = producer
        self.nbytes = nbytes
        self.may_be_repeated = True

    def settle(self) -> None:
        """Drop the range, or defer this until the streams that use it have passed this point."""
        self.may_be_repeated = False  # else the range would be counted twice
        leave(self._final_group(), self.producer, self.nbytes)

    def _final_group(self) -> Group:
        """The group that it has been merged into."""
        group = self.group.last()
        assert isinstance(group, Group), "groups are merged into groups"
        return group

    def wait_for(self, streams: tuple[Stream, ...]) -> None:
        """Defer this until these streams have passed this point, one after the other."""
        if not streams:
            RANGES.end(self._final_group())
            return
        first, *others = streams
        note = _Waiting(self, tuple(others))
        first.keep(Postponed(self.group.device, note), self.nbytes)
        first.advance()


def leave(group: Group, producer: Owner, nbytes: int) -> None:
    """Remove one storage from a group. The lock is held."""
    group.count -= 1
    memory = producer.find_memory() if group.has_failures() else None
    if memory is not None:
        group.left = [*(one for one in group.left if one() is not None), memory]
    pending = group.pending()
    if pending and not producer.hand_back(pending):
        Left(group, producer, nbytes).wait_for(pending)
    elif not pending and not producer.comes_back:
        RANGES.end(group)
    elif not group.is_left:
        RANGES.remember(group)


class _Waiting(NamedTuple):
    """Deferred work: a dropped storage that the first of some streams has passed."""

    left: Left
    others: tuple[Stream, ...]
    may_be_repeated: bool = True

    def settle(self) -> None:
        """Wait for the next stream."""
        self.left.wait_for(self.others)
