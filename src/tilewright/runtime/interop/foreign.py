"""Memory of other libraries, found by address, so that two views of it cannot disagree.

There is one table for the process. Ranges of addresses that overlap, or are bridged by a third,
form a *group*, which is the common timeline of their storages; regions in it are absolute
addresses. A group is in the table while a handle, a built operation or an unfinished one uses it.
Its producer is kept as long, unless the library itself keeps the memory from reuse: then only the
range is remembered, and a later array at that address is ordered behind its uses. Most addresses
recur, so remembered ranges are searched for completed ones only when there are many; a completed
one is also dropped when an array with another range overlaps it. The wrappers of a group that has
ended join another one at their next use. Everything but the finaliser runs under the device's lock,
in a critical section.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

from tilewright.errors import BorrowError, LaunchError
from tilewright.native import slots_in_c
from tilewright.runtime.devices.device import Device
from tilewright.runtime.devices.process import in_children
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.memory.layout import Layout
from tilewright.runtime.memory.layout_templates import HandleTemplate
from tilewright.runtime.memory.storage import Storage
from tilewright.runtime.ops.call_site import user_frame
from tilewright.runtime.order.deferred import DeferredCall, Postponed
from tilewright.runtime.order.failure import Allocation
from tilewright.runtime.order.timeline import Borrows, Timeline

if TYPE_CHECKING:
    from tilewright.runtime.interop.array import Form

__all__ = ["MANY_LEFT", "MOVED", "RANGES", "ArrayPlace", "ForeignStorage", "Group", "Producer"]

_FROM_USERS = 6  # least number of frames between a user's call and the storage of an array
_CROWD = 16  # members from which dead ones are dropped
# Remembered ranges of one device from which completed ones are dropped.
MANY_LEFT = 8192
# The reason for refusing an array that has another address now.
MOVED = "has been moved or resized since: pass the array again after that"


class Producer:
    """The library that owns some memory; libraries with rules of their own derive from this."""

    library = "another library"
    has_one_stream = False  # whether all its arrays on a device have one current stream
    comes_back = False  # whether its allocator reuses memory, so that addresses recur
    read_only = False

    def __init__(self, array: object, *, read_only: bool = False) -> None:
        self.array = array  # keeps the memory alive
        self.read_only = read_only

    def why_not_there(self, first: int, end: int) -> str | None:
        """The reason why the array no longer begins at an address, or its memory ends too early.

        Overridden for libraries whose arrays can be moved or shrunk; other arrays are not checked.
        """
        del first, end
        return None

    def why_not_written(self) -> str | None:
        """The reason why the array may not be written; None if it may."""
        if self.read_only:
            return f"the array of {self.library} is read-only: pass it to a Ref, or write to a copy"
        return None

    def note_write(self) -> None:
        """Tell the library that the contents will change."""

    def hand_back(self, streams: tuple[Stream, ...]) -> bool:
        """Whether the library keeps the memory from reuse until these streams have passed."""
        del streams
        return False

    def find_memory(self) -> ref[Any] | None:
        """A weak reference to the memory of the array, if its library allows one."""
        return None

    def current_stream(self, device: Device) -> Stream | None:
        """The current stream of the library; None if it has none."""
        del device
        return None


class Group(Timeline):
    """Ranges that overlap or are bridged, and the timeline that their storages share."""

    __slots__ = ("_crowd", "count", "high", "is_ended", "is_left", "left", "low", "members")

    def __init__(self, device: Device, low: int, high: int) -> None:
        super().__init__(device)
        self.low = low
        self.high = high
        self.members: list[ref[ForeignStorage]] = []
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

    def admit(self, member: ForeignStorage) -> None:
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
            self._remembered: dict[Device, list[Group]] = {}
            self._many: dict[Device, int] = {}  # of them, from which completed ones are dropped

    def join(self, member: ForeignStorage, low: int, high: int, *, forgets: bool = True) -> None:
        """Give a storage the group of its range: an existing one, several merged, or a new one.

        Groups that are over are dropped by default: merging them would leave few, large groups.
        """
        with self._lock:
            found = self._meet(member, low, high, forgets=forgets)
            found.admit(member)
            member.timeline = found

    def _meet(self, member: ForeignStorage, low: int, high: int, *, forgets: bool) -> Group:
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

    def _joined(self, member: ForeignStorage, span: range, place: slice) -> Group:
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
        groups = self._remembered.setdefault(group.device, [])
        if not group.is_left and not group.count:
            group.is_left = True
            groups.append(group)
        is_many = len(groups) >= self._many.get(group.device, MANY_LEFT)
        if is_many and not _is_recorded(group.device):
            for one in self._forget_completed(group.device):
                self.end(one)

    def _forget_completed(self, device: Device) -> list[Group]:
        """Remove and give the remembered ranges that are over, after querying the streams."""
        groups, over, left = self._remembered[device], [], []
        for stream in {stream for group in groups for stream in group.pending()}:
            stream.queue.progress()
        for group in groups:
            if group.count or group.heir is not None or group.is_over:
                group.is_left = False
                over.append(group)
            else:
                left.append(group)
        self._remembered[device], self._many[device] = left, max(MANY_LEFT, 2 * len(left))
        return over

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
in_children(RANGES.reset)


class _Left:
    """Deferred work: a dropped storage, whose producer is kept until no operation uses the memory.

    A producer whose library keeps the memory from reuse is dropped at once: then only the range is
    remembered.
    """

    __slots__ = ("group", "may_be_repeated", "nbytes", "producer")

    def __init__(self, group: Group, producer: Producer, nbytes: int) -> None:
        self.group = group
        self.producer = producer
        self.nbytes = nbytes
        self.may_be_repeated = True

    def settle(self) -> None:
        """Drop the range, or defer this until the streams that use it have passed this point."""
        self.may_be_repeated = False  # else the range would be counted twice
        group, producer = self._final_group(), self.producer
        group.count -= 1
        memory = producer.find_memory() if group.has_failures() else None
        if memory is not None:
            group.left = [*(one for one in group.left if one() is not None), memory]
        pending = group.pending()
        if pending and not producer.hand_back(pending):
            self.wait_for(pending)
        elif not pending and not producer.comes_back:
            RANGES.end(group)
        elif not group.is_left:
            RANGES.remember(group)

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
        rest = DeferredCall(partial(self.wait_for, tuple(others)))
        first.keep(Postponed(self.group.device, rest), self.nbytes)
        first.advance()


class ArrayPlace(NamedTuple):
    """The address and layout of arrays of one form, shared by all arrays found there."""

    form: Form
    layout: Layout
    template: HandleTemplate
    allocation: Allocation


@slots_in_c
class ForeignStorage(Storage):
    """Bytes of another library. Its tensors count their offsets from address 0."""

    __slots__ = ("first", "origin", "producer")

    timeline: Timeline  # a group of ranges
    owns_bytes = False
    is_counted = True  # it keeps its array
    address = 0
    _initialiser = None

    def __init__(self, device: Device, producer: Producer, place: ArrayPlace, first: int) -> None:
        region = place.template.region
        self.device, self.nbytes, self.label = device, region.high - region.low, place.form.label
        frame = user_frame(_FROM_USERS)
        self._code, self._instruction = frame.f_code, frame.f_lasti
        self.producer = producer
        self.first = first  # the address of the first element
        self.origin = place
        self._allocation = place.allocation
        self.join_group()

    def join_group(self, *, forgets: bool = True) -> None:
        """Share the timeline of all ranges that this one overlaps."""
        region = self.origin.template.region
        if region.low == region.high:
            self.timeline = Group(self.device, 0, 0)
        else:
            RANGES.join(self, region.low, region.high, forgets=forgets)
        self._begin()

    def _begin(self) -> None:
        """Make the library's stream the sole one, if no use of the memory is known."""
        timeline, producer = self.timeline, self.producer
        is_new = not timeline.uses and not timeline.graphs and timeline.stream is None
        if is_new and producer.has_one_stream:
            stream = producer.current_stream(self.device) or self.device.stream
            if stream.may_be_sole:
                timeline.stream = stream

    @property
    def has_memory(self) -> bool:
        """Whether the memory is still that of the array that was used last: it is kept."""
        return True

    def find_timeline(self) -> Timeline:
        """The timeline of the range; its group may have ended since the last use.

        Other groups that are over stay: they may be those of other arrays of the same operation.
        """
        if self.timeline.is_ended:
            self.join_group(forgets=False)
        return self.timeline

    def shares_memory(self, other: Storage) -> bool:
        """Whether regions of both can overlap: regions of foreign memory are addresses."""
        return isinstance(other, ForeignStorage)

    def why_not_written(self, array: Any = None) -> str | None:
        """The producer's reason."""
        del array
        return self.producer.why_not_written()

    def check_there(self, array: Any = None) -> None:
        """Refuse the operation if the array has been moved or shrunk since it was passed."""
        del array
        reason = self.producer.why_not_there(self.first, self.origin.template.region.high)
        if reason is not None:
            raise self.refusal(reason)

    def refusal(self, reason: str) -> BorrowError:
        """The refusal of a launch for a reason."""
        return BorrowError(
            f"{self.label} of {self.producer.library}, passed at {self.site}, {reason}"
        )

    def note_write(self, array: Any = None) -> None:
        """Tell the library that contents change."""
        del array
        self.producer.note_write()

    def __del__(self) -> None:
        # No lock and no driver call: the collector may run this at any point.
        group = getattr(self, "timeline", None)  # a refused storage has none
        if self.is_counted and isinstance(group, Group) and self.nbytes:
            self.device.deferred.append(_Left(group, self.producer, self.nbytes))
