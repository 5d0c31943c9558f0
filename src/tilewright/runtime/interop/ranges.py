"""Ranges of addresses in which arrays of other libraries lie, and what is known of each.

There is one table for the process. Ranges that overlap, or are bridged by a third, form a *group*,
whose members have one list of borrows and one of fences between them. A range is known while a
handle or an unfinished operation uses it. Its producer lives as long, unless the library itself
keeps the memory from others: then only the range is remembered, and an array that comes to that
address is ordered behind it. Most do come back, so such ranges are looked through when there are
many, and no sooner; one that is over by then stands against nobody and keeps nothing, and goes when
an array comes that lies otherwise. Everything here happens under the device's lock.

The collector may run finalisers of users wherever something is made, and those may pass arrays. So
it waits while the table is changed, and a group is asked whether it is still there right before a
storage is counted in it: from then on it stays, or has an heir.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from itertools import count
from typing import NamedTuple, Protocol
from weakref import ref

from tilewright.errors import LaunchError
from tilewright.runtime.devices.device import Device
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.graphs.leases import Share
from tilewright.runtime.memory.regions import Region
from tilewright.runtime.order.alone import alone
from tilewright.runtime.order.borrows import Borrows
from tilewright.runtime.order.postponed import Postponed
from tilewright.runtime.order.uses import Use

__all__ = ["MANY_LEFT", "RANGES", "Group", "Left", "Member", "Owner", "leave"]

_CROWD = 16  # members from which dead ones are looked for
# Ranges of one device that are only remembered, from which those that are over are looked for.
MANY_LEFT = 8192
_first_shifts = count(0, 1 << 40)  # so that what one has come to is never that of another


class Member(Protocol):
    """What a group needs to know of a storage."""

    @property
    def device(self) -> Device:
        """Where it lives."""

    @property
    def label(self) -> str:
        """How messages call it."""

    @property
    def is_vacant(self) -> bool:
        """Whether its array is gone, and it waits for another at the same place."""

    def join(self, group: Group) -> None:
        """Have one state with everybody whose memory can overlap."""


class Owner(Protocol):
    """Whose memory it is."""

    @property
    def comes_back(self) -> bool:
        """Whether the library gives the same memory out again and again."""

    def hand_back(self, streams: tuple[Stream, ...]) -> bool:
        """Whether the library keeps the memory from others until these streams are done with it."""


class Group:
    """Ranges that overlap or are bridged, and the state that their storages share."""

    __slots__ = (
        "_crowd", "borrows", "count", "device", "heir", "high", "home", "is_left", "low", "members",
        "reads", "shares", "shift", "table", "writes",
    )  # fmt: skip

    def __init__(self, device: Device, low: int, high: int) -> None:
        self.device = device
        self.low = low
        self.high = high
        self.members: list[ref[Member]] = []
        self.count = 0  # of storages whose end nobody has settled yet
        self.is_left = False  # among those that are only remembered
        self.heir: Group | None = None  # that it has become one with
        self.table: _Ranges | None = None  # in which it is found, until it ends
        self._crowd = _CROWD
        self.borrows: Borrows = {}
        self.shares: list[Share] = []
        self.writes: list[Use] = []
        self.reads: list[Use] = []
        self.home: Stream | None = None
        self.shift = next(_first_shifts)

    def take_in(self, other: Group) -> None:
        """Become one with a group that has been bridged."""
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        for holder, borrows in other.borrows.items():
            self.borrows.setdefault(holder, []).extend(borrows)
        self.shares += other.shares
        self.writes += other.writes
        self.reads += other.reads
        self.home = self.home if self.home is other.home else None
        self.shift = next(_first_shifts)  # nobody has seen it
        self.device.epoch += 1
        self.count += other.count
        other.heir = self
        for one in other.members:
            member = one()
            if member is not None:
                self.members.append(one)
                member.join(self)
        # A place may remember it, and is not to keep what is this one's now.
        for moved in (other.borrows, other.shares, other.writes, other.reads, other.members):
            moved.clear()

    def admit(self, member: Member) -> None:
        """Know one that is counted, and think of the dead no longer when there are many."""
        self.members.append(ref(member))
        known = len(self.members)
        if known > self._crowd:
            self._crowd = 2 * known  # a finaliser in the middle of this only has more of them
            self.members[:known] = [one for one in self.members[:known] if one() is not None]
            self._crowd = max(_CROWD, 2 * len(self.members))

    def living(self) -> list[Member]:
        """The storages that somebody still uses."""
        members = [member for one in self.members if (member := one()) is not None]
        return [member for member in members if not member.is_vacant]

    def pending(self) -> tuple[Stream, ...]:
        """Streams with operations that are not known to have completed; asks no device."""
        found: tuple[Stream, ...] = ()
        for uses in (self.writes, self.reads):
            for use in uses:
                fence = use.fence
                stream = fence.stream
                if fence.count > stream.queue.known and stream not in found:
                    found = (*found, stream)
        return found

    @property
    def is_over(self) -> bool:
        """Whether nothing uses the memory any more."""
        return not self.count and not self.pending()

    def is_stale(self, low: int, high: int) -> bool:
        """Whether it is over, and better forgotten by an array that comes to a range.

        It is, unless it was of this very range, by itself, and all was on one stream and went well.
        """
        if self.count or (self.home is not None and self.low == low and self.high == high):
            return False
        return not self.pending()


class _Remembered:
    """The ranges of one device that nobody has, but for streams that still work on them."""

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
        """Start with a new lock: nobody is left to release one that was held during a fork."""
        self._lock = threading.RLock()
        if not hasattr(self, "groups"):
            self.groups: list[Group] = []
            self._lows: list[int] = []
            self._remembered: dict[Device, _Remembered] = {}

    def find(self, member: Member, low: int, high: int, last: Group | None = None) -> Group:
        """The group of a range, which may bridge several; a new one, if it meets nobody.

        `last` is the group that the same range of the same device was in before. Groups only grow
        while they are in the table, and no two of them overlap, so it still is that one.
        """
        with self._lock:
            if last is None or not self._count_in(last, low, high):
                last = self._find_undisturbed(member, low, high)
            last.admit(member)
            return last

    def is_counted(self, group: Group, region: Region) -> bool:
        """Count a member again that is vacant, if its group is still there."""
        with self._lock:
            return self._count_in(group, region.low, region.high)

    def _count_in(self, group: Group, low: int, high: int) -> bool:
        # The table is asked last: a finaliser may have ended the group just now.
        if group.is_stale(low, high) or group.table is not self:
            return False
        group.count += 1
        return True

    def _find_undisturbed(self, member: Member, low: int, high: int) -> Group:
        """The same of a range of which no group is known."""
        return alone(member.device, self._find_among, member, low, high)

    def _find_among(self, member: Member, low: int, high: int) -> Group:
        found = self._meet(member, low, high)
        found.count += 1
        return found

    def _meet(self, member: Member, low: int, high: int) -> Group:
        first, last = self._overlapping(low, high)
        if first != last:
            last = self._drop_over(member.device, low, high, slice(first, last))
        if first != last:
            return self._joined(member, range(low, high), slice(first, last))
        made = Group(member.device, low, high)
        made.table = self
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
        group = self.groups[at]
        del self.groups[at], self._lows[at]
        group.table = None
        group.device.epoch += 1  # who comes back to its addresses is in another

    def _joined(self, member: Member, span: range, place: slice) -> Group:
        """One group in the place of several that a range overlaps, or beyond which it reaches."""
        device = member.device
        met = []
        for group in self.groups[place]:
            if group.device is device:
                met.append(group)
            elif group.living() or group.pending():
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
            group.table = None
        found.table = self
        self.groups[place] = [found]
        self._lows[place] = [found.low]
        return found

    def end(self, group: Group) -> None:
        """Forget a group that nothing uses any more."""
        with self._lock:
            alone(group.device, self._end, group)

    def _end(self, group: Group) -> None:
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
        group = self.group
        while group.heir is not None:
            group = group.heir
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
