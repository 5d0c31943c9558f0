"""Memory that another library owns: found by its addresses, so that no two views can disagree.

Storages whose ranges overlap have one list of borrows and one of fences between them, which are
their group's (`foreign_ranges`); their regions count in absolute addresses. Everything but the
finaliser happens under the device's lock. Not for how arrays of other libraries are read: that is
`imports`.
"""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

from tilewright.errors import BorrowError
from tilewright.runtime.device import Device
from tilewright.runtime.failures import Fence
from tilewright.runtime.foreign_ranges import RANGES, Group, Left
from tilewright.runtime.indexing import Layout
from tilewright.runtime.moulds import Look
from tilewright.runtime.records import Allocation
from tilewright.runtime.regions import Region
from tilewright.runtime.sites import user_frame
from tilewright.runtime.storage import Storage
from tilewright.runtime.stream import Stream

__all__ = ["ForeignStorage", "Place", "Producer"]

# Calls from one of a user's to the storage of an array that is passed or taken, at least.
_FROM_USERS = 5


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


class Place(NamedTuple):
    """Where arrays of one form lie that begin at one address, one after the other."""

    layout: Layout
    look: Look
    serials: dict[tuple[object, int], int]  # of all handles there: launches are found again
    allocation: Allocation


class ForeignStorage(Storage):
    """Bytes of another library. Its tensors count their offsets from address 0."""

    __slots__ = ("_group", "first", "producer")

    _group: Group

    owns_bytes = False

    def __init__(
        self, device: Device, producer: Producer, place: Place, first: int, label: str
    ) -> None:
        # All that a storage of ours has, but for what this one shares with its group.
        region = place.look.region
        low, high = region.low, region.high
        self.device, self.nbytes, self.label = device, high - low, label
        frame = user_frame(_FROM_USERS)
        self._code, self._instruction = frame.f_code, frame.f_lasti
        self.address = 0
        self.is_fresh = self._is_beginning = False
        self._initialiser = None
        self.serials, self.written_at_home, self.read_at_home = place.serials, [], []
        self.producer = producer
        self.first = first  # the address of the first element
        self._allocation = place.allocation
        self.join(Group(device, 0, 0) if low == high else RANGES.find(self, low, high))

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
        """Be at home on a stream that can be one: nobody has used the memory yet."""
        if stream.may_be_home and self._group.home is not stream:
            self._group.home = stream
            self.device.epoch += 1

    def join(self, group: Group) -> None:
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
        group = getattr(self, "_group", None)  # one that was refused has none
        if group is not None and self.nbytes:
            self.device.notes.append(Left(group, self.producer, self.nbytes))
