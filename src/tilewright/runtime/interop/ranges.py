"""Ranges of addresses in which arrays of other libraries lie, and the timeline of each.

There is one table for the process. Ranges that overlap, or are bridged by a third, form a *group*,
which is their common timeline. A group is in the table while a handle, a built operation or an
unfinished one uses it. Its producer lives as long, unless the library itself keeps the memory from
others: then only the range is remembered, and an array that comes to that address is ordered behind
it. Most do come back, so such ranges are looked through when there are many, and no sooner; one
that is over by then goes when an array comes that lies otherwise. The wrappers of a group that has
ended join another one with their next use. Everything here happens under the device's lock, in a
critical section.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from typing import NamedTuple, Protocol
from weakref import ref

from tilewright.errors import LaunchError
from tilewright.runtime.devices.device import Device
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.order.deferred import Postponed
from tilewright.runtime.order.timeline import Timeline

__all__ = ["MANY_LEFT", "RANGES", "Group", "Left", "Owner", "RangeMember", "leave"]

_CROWD = 16  # members from which dead ones are looked for
# Ranges of one device that are only remembered, from which those that are over are looked for.
MANY_LEFT = 8192


class RangeMember(Protocol):
    """What a group needs to know of a storage."""

    @property
    def device(self) -> Device:
        """Where it lives."""

    @property
    def label(self) -> str:
        """How messages call it."""

    @property
    def is_counted(self) -> bool:
        """Whether it keeps its array, so that the range is in use for as long as it lives."""

    @property
    def has_memory(self) -> bool:
        """Whether the memory is still that of the array that was used last."""

    timeline: Timeline


class Owner(Protocol):
    """Whose memory it is."""

    @property
    def comes_back(self) -> bool:
        """Whether the library gives the same memory out again and again."""

    def hand_back(self, streams: tuple[Stream, ...]) -> bool:
        """Whether the library keeps the memory from others until these streams are done with it."""


class Group(Timeline):
    """Ranges that overlap or are bridged, and the timeline that their storages share."""

    __slots__ = ("_crowd", "count", "high", "is_ended", "is_left", "low", "members")

    def __init__(self, device: Device, low: int, high: int) -> None:
        super().__init__(device)
        self.low = low
        self.high = high
        self.members: list[ref[RangeMember]] = []
        self.count = 0  # of storages that keep their arrays
        self.is_left = False  # among those that are only remembered
        self.is_ended = False  # nothing used it, and it is in no table any more
        self._crowd = _CROWD

    def take_in(self, other: Group) -> None:
        """Become one with a group that has been bridged."""
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        self.merge(other)
        self.count += other.count
        for one in other.members:
            member = one()
            if member is not None:
                self.members.append(one)
                member.timeline = self
        other.members.clear()

    def admit(self, member: RangeMember) -> None:
        """Add a storage, and drop dead ones when there are many."""
        self.members.append(ref(member))
        self.count += member.is_counted
        if len(self.members) > self._crowd:
            self.members = [one for one in self.members if one() is not None]
            self._crowd = max(_CROWD, 2 * len(self.members))

    def end(self) -> None:
        """Have no uses: the next build with a wrapper of this group looks for another one."""
        self.is_ended = True
        self.held, self.stream = [], None
        self._keep([])
        self.members.clear()

    def living(self) -> list[RangeMember]:
        """The storages that keep their arrays."""
        members = [member for one in self.members if (member := one()) is not None]
        return [member for member in members if member.is_counted]

    def pending(self) -> tuple[Stream, ...]:
        """Streams with operations that are not known to have completed; asks no device."""
        found: dict[Stream, None] = {}
        for use in self.uses:
            if use.count > use.stream.queue.known:
                found[use.stream] = None
        return tuple(found)

    @property
    def is_over(self) -> bool:
        """Whether nothing uses the memory any more, and no array has contents that failed."""
        if self.count or self.held or self.graphs or self.pending():
            return False
        return not self._may_have_failed()

    def _may_have_failed(self) -> bool:
        """Whether an array that is still there has contents that failed, or may have."""
        outcomes = [use.outcome for use in self.uses if use.writes and use.outcome is not None]
        if all(outcome.settled and outcome.error is None for outcome in outcomes):
            return False
        members = [member for one in self.members if (member := one()) is not None]
        return any(member.has_memory for member in members)

    def is_stale(self, low: int, high: int) -> bool:
        """Whether it is over, and better forgotten by an array that comes to a range.

        It is not if it was of this very range and all uses were on one stream and went well, or
        there were none.
        """
        is_usable = self.stream is not None or not self.uses
        if is_usable and self.low == low and self.high == high:
            return False
        return self.is_over


class _Remembered:
    """Ranges of one device that only streams still work on."""

    __slots__ = ("groups", "many")

    def __init__(self) -> None:
        self.groups: list[Group] = []
        self.many = MANY_LEFT

    def add(self, group: Group) -> bool:
        """Remember a range; whether it is time to look through all."""
        if not group.is_left and not group.count:
            group.is_left = True
            self.groups.append(group)
        return len(self.groups) >= self.many

    def take_out(self) -> list[Group]:
        """Those that are over, once the streams have said how far they are."""
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
        """Start with a new lock: no thread is left to release one that was held during a fork."""
        self._lock = threading.RLock()
        if not hasattr(self, "groups"):
            self.groups: list[Group] = []
            self._lows: list[int] = []
            self._remembered: dict[Device, _Remembered] = {}

    def join(self, member: RangeMember, low: int, high: int, *, forgets: bool = True) -> None:
        """Give a storage the group of its range, which may bridge several, or a new one.

        Groups that are over are forgotten by default: else few would be left, all of them large.
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
        # No calls: a signal raises before both or behind both.
        self.groups[first:first] = [made]
        self._lows[first:first] = [low]
        return made

    def _drop_over(self, device: Device, low: int, high: int, place: slice) -> int:
        """Forget those of some groups that are over; gives the end of the others."""
        last: int = place.stop
        for at in reversed(range(place.start, last)):
            group = self.groups[at]
            if group.device is device and group.is_stale(low, high):
                self._take_out(at)
                last -= 1
        return last

    def _take_out(self, at: int) -> None:
        self.groups[at].end()  # first: a signal may raise in between
        del self.groups[at], self._lows[at]

    def _joined(self, member: RangeMember, span: range, place: slice) -> Group:
        """One group in the place of several that a range overlaps, or beyond which it reaches."""
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
        """Forget a group that nothing uses any more."""
        with self._lock:
            at = bisect_left(self._lows, group.low)
            if at < len(self.groups) and self.groups[at] is group and group.is_over:
                self._take_out(at)

    def remember(self, group: Group) -> None:
        """Have nothing of a range but what its streams still do."""
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
    """Whether another library records a graph: to ask any stream then could spoil it."""
    return any(not one.is_plain and one.queue.is_capturing() for one in device.streams)


# The one there is.
RANGES = _Ranges()


class Left:
    """A dropped storage; its producer lives on until nothing runs on the memory.

    One whose library sees to that itself is let go at once: then only the range is remembered.
    """

    __slots__ = ("group", "may_be_repeated", "nbytes", "producer")

    def __init__(self, group: Group, producer: Owner, nbytes: int) -> None:
        self.group = group
        self.producer = producer
        self.nbytes = nbytes
        self.may_be_repeated = True

    def settle(self) -> None:
        """Forget the range, or come back when the streams that use it have got to this point."""
        self.may_be_repeated = False  # or the range would be counted twice
        leave(self._final_group(), self.producer, self.nbytes)

    def _final_group(self) -> Group:
        """The group that it is part of now."""
        group = self.group.last()
        assert isinstance(group, Group), "groups are merged into groups"
        return group

    def wait_for(self, streams: tuple[Stream, ...]) -> None:
        """Come back when these streams are done with what they have, one after the other."""
        if not streams:
            RANGES.end(self._final_group())
            return
        first, *others = streams
        note = _Waiting(self, tuple(others))
        first.keep(Postponed(self.group.device, note), self.nbytes)
        first.advance()


def leave(group: Group, producer: Owner, nbytes: int) -> None:
    """Have one storage of a group no more. The lock is held."""
    group.count -= 1
    pending = group.pending()
    if pending and not producer.hand_back(pending):
        Left(group, producer, nbytes).wait_for(pending)
    elif not pending and not producer.comes_back:
        RANGES.end(group)
    elif not group.is_left:
        RANGES.remember(group)


class _Waiting(NamedTuple):
    """A dropped storage that the first of some streams is done with."""

    left: Left
    others: tuple[Stream, ...]
    may_be_repeated: bool = True

    def settle(self) -> None:
        """Go on to the next."""
        self.left.wait_for(self.others)
