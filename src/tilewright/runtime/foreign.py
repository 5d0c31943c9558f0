"""Memory that another library owns: found by its addresses, so that no two views can disagree.

There is one table for the process. Ranges that overlap, or are bridged by a third, form a *group*,
whose storages have one list of borrows and one of fences between them; their regions count in
absolute addresses. A range is known while a handle or an unfinished operation uses it. Its producer
lives as long, unless the library itself keeps the memory from others (`hand_back`): then only the
range is remembered, and an array that comes to that address is ordered behind it. Everything but
the finaliser happens under the device's lock. Not for how arrays of other libraries are read: that
is `imports`.
"""

from __future__ import annotations

import threading
import weakref
from bisect import bisect_left, bisect_right
from itertools import count
from typing import Any, NamedTuple

from tilewright.errors import BorrowError, LaunchError
from tilewright.runtime.borrows import Borrows
from tilewright.runtime.device import Device
from tilewright.runtime.failures import Fence
from tilewright.runtime.leases import Share
from tilewright.runtime.regions import Region
from tilewright.runtime.sites import user_frame
from tilewright.runtime.storage import Storage
from tilewright.runtime.stream import Stream
from tilewright.runtime.uses import Use

__all__ = ["ForeignStorage", "Producer", "reset_table"]


class Producer:
    """Whose memory it is; a library with habits of its own derives from this."""

    library = "another library"
    has_one_stream = False  # whether all its arrays on a device have one current stream
    given: weakref.ref[Any] | None = None  # what was passed, if that may die before this

    def __init__(self, array: object, *, read_only: bool = False) -> None:
        self.array = array  # what keeps the memory alive
        self.read_only = read_only

    def is_at(self, address: int) -> bool:
        """Whether the array still begins where it did; some can be moved."""
        del address
        return True

    def why_not_written(self) -> str | None:
        """The reason why nothing may write to it, if there is one."""
        if self.read_only:
            return f"the array of {self.library} is read-only: pass it to a Ref, or write to a copy"
        return None

    def note_write(self) -> None:
        """Tell the library that the contents will change."""

    def hand_back(self, streams: tuple[Stream, ...]) -> bool:
        """Whether the library keeps the memory from others until these streams are done with it."""
        del streams
        return False

    def current_stream(self, device: Device) -> Stream | None:
        """The stream on which the library works now; None where it has none."""
        del device
        return None


class ForeignStorage(Storage):
    """Bytes of another library. Its tensors count their offsets from address 0."""

    __slots__ = ("_group", "first", "producer")

    _group: _Group

    owns_bytes = False

    def __init__(
        self, device: Device, producer: Producer, region: Region, first: int, label: str
    ) -> None:
        # All that a storage of ours has, but for what this one shares with its group.
        low, high = region.low, region.high
        self.device, self.nbytes, self.label = device, high - low, label
        frame = user_frame(3)
        self._code, self._instruction = frame.f_code, frame.f_lasti
        self.address = 0
        self.is_fresh = self._is_beginning = False
        self._initialiser = None
        self.serials, self.written_at_home, self.read_at_home = {}, [], []
        self.producer = producer
        self.first = first  # the address of the first element
        self._allocation = device.backend.adopt(low, high - low, read_only=producer.read_only)
        self.join(_Group(device, 0, 0) if low == high else _table.find(self, low, high))

    # What is on one stream and what has shifted is the same for all who share the memory.

    @property
    def home(self) -> Stream | None:
        """The stream on which all uses are, none of which can fail."""
        return self._group.home

    @home.setter
    def home(  # pyright: ignore[reportIncompatibleVariableOverride] with a setter it is as good
        self, stream: Stream | None
    ) -> None:
        self._group.home = stream

    @property
    def shift(self) -> int:
        """How often fences were taken off, or the home away."""
        return self._group.shift

    @shift.setter
    def shift(self, count: int) -> None:
        self._group.shift = count

    @property
    def is_forgotten(self) -> bool:
        """Whether nobody knows of a use of the memory."""
        return not (self._writes or self._reads or self.shares)

    def begin_at(self, stream: Stream) -> None:
        """Be at home on a stream that can be one, if nobody has used the memory yet."""
        if self.is_forgotten and stream.may_be_home and self._group.home is not stream:
            self._group.home = stream
            self.device.epoch += 1

    def join(self, group: _Group) -> None:
        """Have one state with everybody whose memory can overlap."""
        self._group = group
        self.borrows, self._writes, self._reads = group.borrows, group.writes, group.reads
        self.shares = group.shares

    def why_not_written(self) -> str | None:
        """The producer's reason."""
        return self.producer.why_not_written()

    def materialise(self, stream: Stream) -> None:
        """The bytes are there; the array may have been moved since it was passed."""
        del stream
        if not self.producer.is_at(self.first):
            raise BorrowError(
                f"{self.label} of {self.producer.library}, passed at {self.site}, has been moved or"
                " resized since: pass the array again after that"
            )

    def record_write(self, region: Region, fence: Fence) -> None:
        """Leave the fence of a submitted writer, and tell the library."""
        super().record_write(region, fence)
        self.note_write()

    def note_write(self) -> None:
        """Tell the library."""
        self.producer.note_write()

    def __del__(self) -> None:
        # No lock and no driver here: the collector may run this anywhere.
        producer = getattr(self, "producer", None)
        if producer is not None and self.nbytes:
            self.device.notes.append(_Left(self._group, producer, self.nbytes))


class _Group:
    """Ranges that overlap or are bridged, and the state that their storages share."""

    __slots__ = (
        "_crowd", "borrows", "count", "device", "heir", "high", "home", "low", "members", "reads",
        "shares", "shift", "writes",
    )  # fmt: skip

    def __init__(self, device: Device, low: int, high: int) -> None:
        self.device = device
        self.low = low
        self.high = high
        self.members: list[weakref.ref[ForeignStorage]] = []
        self.count = 0  # of storages whose end nobody has settled yet
        self.heir: _Group | None = None  # that it has become one with
        self._crowd = _CROWD
        self.borrows: Borrows = {}
        self.shares: list[Share] = []
        self.writes: list[Use] = []
        self.reads: list[Use] = []
        self.home: Stream | None = None
        self.shift = next(_first_shifts)

    def take_in(self, other: _Group) -> None:
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
        for member in other.living():
            self.members.append(weakref.ref(member))
            member.join(self)

    def admit(self, storage: ForeignStorage) -> None:
        """Have one more storage, and think of the dead no longer when there are many."""
        self.count += 1
        self.members.append(weakref.ref(storage))
        if len(self.members) > self._crowd:
            self.members = [ref for ref in self.members if ref() is not None]
            self._crowd = max(_CROWD, 2 * len(self.members))

    def living(self) -> list[ForeignStorage]:
        """The storages that somebody still uses."""
        return [member for ref in self.members if (member := ref()) is not None]

    def pending(self) -> dict[Stream, None]:
        """Streams with operations that are not known to have completed; asks no device."""
        fences = (use.fence for use in (*self.writes, *self.reads))
        return {one.stream: None for one in fences if one.count > one.stream.queue.known}

    @property
    def is_over(self) -> bool:
        """Whether nothing uses the memory any more."""
        return not self.count and not self.pending()


_CROWD = 16  # members from which dead ones are looked for
_first_shifts = count(0, 1 << 40)  # so that what one has come to is never that of another


class _Table:
    """The groups in order of their addresses; they do not overlap."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start with a new lock: nobody is left to release one that was held during a fork."""
        self._lock = threading.RLock()
        if not hasattr(self, "_groups"):
            self._groups: list[_Group] = []
            self._lows: list[int] = []

    def find(self, storage: ForeignStorage, low: int, high: int) -> _Group:
        """The group of a range, which may bridge several; a new one, if it meets nobody."""
        device = storage.device
        with self._lock:
            first, last = self._overlapping(low, high)
            if first == last:
                found = _Group(device, low, high)
                self._groups.insert(first, found)
                self._lows.insert(first, low)
            else:
                found = self._groups[first]
                is_inside = found.low <= low and high <= found.high
                if last - first > 1 or not is_inside or found.device is not device:
                    found = self._joined(storage, range(low, high), slice(first, last))
            found.admit(storage)
            return found

    def _joined(self, storage: ForeignStorage, span: range, place: slice) -> _Group:
        """One group in the place of several that a range overlaps, or beyond which it reaches."""
        device = storage.device
        met = []
        for group in self._groups[place]:
            if group.device is device:
                met.append(group)
            elif group.living() or group.pending():
                raise LaunchError(
                    f"{storage.label} lies in memory that {group.device.name} uses, too, and"
                    f" would be used by {device.name}: two devices have no order, so"
                    " drop the tensors of one of them first"
                )
        found = met[0] if met else _Group(device, span.start, span.stop)
        for other in met[1:]:
            found.take_in(other)
        found.low, found.high = min(found.low, span.start), max(found.high, span.stop)
        self._groups[place] = [found]
        self._lows[place] = [found.low]
        return found

    def end(self, group: _Group) -> None:
        """Forget a group that nothing uses any more."""
        with self._lock:
            at = bisect_left(self._lows, group.low)
            if at < len(self._groups) and self._groups[at] is group and group.is_over:
                del self._groups[at], self._lows[at]
                group.device.epoch += 1  # who comes back to its addresses is in another

    def _overlapping(self, low: int, high: int) -> tuple[int, int]:
        first = last = bisect_right(self._lows, low)
        if first and self._groups[first - 1].high > low:
            first -= 1
        if last < len(self._lows) and self._lows[last] < high:
            last = bisect_left(self._lows, high)
        return first, last


_table = _Table()


def reset_table() -> None:
    """Go on in a forked child."""
    _table.reset()


class _Left(NamedTuple):
    """A dropped storage; its producer lives on until nothing runs on the memory.

    One whose library sees to that itself is let go at once: then only the range is remembered.
    """

    group: _Group
    producer: Producer | None
    nbytes: int

    def settle(self) -> None:
        """Forget the range, or come back when the streams that use it have got to this point."""
        group = self.final_group()
        group.count -= 1
        pending = tuple(group.pending())
        is_seen_to = self.producer is not None and self.producer.hand_back(pending)
        (_Left(self.group, None, 0) if pending and is_seen_to else self).wait_for(pending)

    def final_group(self) -> _Group:
        """The group that it is part of now."""
        group = self.group
        while group.heir is not None:
            group = group.heir
        return group

    def wait_for(self, streams: tuple[Stream, ...]) -> None:
        """Come back when these streams are done with what they have, one after the other."""
        if not streams:
            _table.end(self.final_group())
            return
        first, *others = streams
        first.keep(_Return(_Waiting(self, tuple(others))), self.nbytes)
        first.advance()


class _Waiting(NamedTuple):
    """A dropped storage that the first of some streams is done with."""

    left: _Left
    others: tuple[Stream, ...]

    def settle(self) -> None:
        """Go on to the next."""
        self.left.wait_for(self.others)


class _Return:
    """Leaves a note when a stream lets go of it."""

    def __init__(self, note: _Waiting) -> None:
        self._note = note

    def __del__(self) -> None:
        self._note.left.group.device.notes.append(self._note)
