"""Storages of other libraries' memory, found by address, so that two views cannot disagree.

Storages whose ranges overlap share the timeline of their group (`ranges`); their regions are
absolute addresses. Everything but the finaliser runs under the device's lock. `imports` reads
arrays of other libraries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import ref

from tilewright.errors import BorrowError
from tilewright.runtime.devices.device import Device
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.interop.ranges import RANGES, Group, Left
from tilewright.runtime.memory.layout import Layout
from tilewright.runtime.memory.layout_templates import HandleTemplate
from tilewright.runtime.memory.storage import Storage
from tilewright.runtime.ops.call_site import user_frame
from tilewright.runtime.order.failure_records import Allocation
from tilewright.runtime.order.timeline import Timeline

if TYPE_CHECKING:
    from tilewright.runtime.interop.array import Form

__all__ = ["MOVED", "ArrayPlace", "ForeignStorage", "Producer"]

_FROM_USERS = 6  # least number of frames between a user's call and the storage of an array
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


class ArrayPlace:
    """The address and layout of arrays of one form, shared by all arrays found there."""

    __slots__ = ("allocation", "form", "layout", "template")

    def __init__(
        self, form: Form, layout: Layout, template: HandleTemplate, allocation: Allocation
    ) -> None:
        self.form = form
        self.layout = layout
        self.template = template
        self.allocation = allocation


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
            self.device.deferred.append(Left(group, self.producer, self.nbytes))
