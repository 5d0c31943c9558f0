"""Memory that another library owns: found by its addresses, so that no two views can disagree.

Storages whose ranges overlap have one list of borrows and one of fences between them, which are
their group's (`foreign_ranges`); their regions count in absolute addresses. Everything but the
finaliser happens under the device's lock. Not for how arrays of other libraries are read: that is
`imports`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.errors import BorrowError
from tilewright.runtime.devices.device import Device
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.interop.ranges import RANGES, Group, Left, leave
from tilewright.runtime.memory.layout import Layout
from tilewright.runtime.memory.moulds import Look
from tilewright.runtime.memory.regions import Region
from tilewright.runtime.memory.storage import Storage
from tilewright.runtime.ops.call_site import user_frame
from tilewright.runtime.order.alone import alone
from tilewright.runtime.order.failure import Fence
from tilewright.runtime.order.failure_records import Allocation
from tilewright.runtime.order.uses import NOTHING_AT_HOME

if TYPE_CHECKING:
    from tilewright.runtime.interop.array import Form
    from tilewright.runtime.memory.tensor import Tensor

__all__ = ["MOVED", "ForeignStorage", "Place", "Producer"]

# Calls from one of a user's to the storage of an array that is passed or taken, at least; and to
# that of one that takes the place of another.
_FROM_USERS, _FROM_PASSING = 6, 5


# The reason of an array that lies elsewhere now.
MOVED = "has been moved or resized since: pass the array again after that"


class _NoArray:
    """Stands for an array of which launches cannot ask quickly."""

    requires_grad = True

    def data_ptr(self) -> int:
        """Where none is."""
        return -1


_NO_ARRAY = _NoArray()


class Producer:
    """Whose memory it is; a library with habits of its own derives from this."""

    library = "another library"
    has_one_stream = False  # whether all its arrays on a device have one current stream
    comes_back = False  # whether it gives the same memory out again and again
    read_only = False

    def __init__(self, array: object, *, read_only: bool = False) -> None:
        self.array = array  # what keeps the memory alive
        self.read_only = read_only

    def __call__(self) -> Any:
        """What a launch may ask where its array is and whether it may be written; this cannot say.

        One that was passed is a weak reference, and gives that array: it may be gone.
        """
        return _NO_ARRAY

    def why_not_there(self, first: int, end: int) -> str | None:
        """The reason why the array no longer begins at an address, or its memory ends too early.

        A library whose arrays can be moved or shrunk says so; of others nothing can be known.
        """
        del first, end
        return None

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


class Place:
    """Where arrays of one form lie that begin at one address, one after the other."""

    __slots__ = ("allocation", "form", "group", "is_known", "layout", "look", "serials", "vacant")

    def __init__(self, form: Form, layout: Layout, look: Look, allocation: Allocation) -> None:
        self.form = form
        self.layout = layout
        self.look = look
        self.allocation = allocation
        # Of all handles there: launches are found again.
        self.serials: dict[tuple[object, int], int] = {}
        self.group: Group | None = None  # that an array here was in last
        self.vacant: list[Tensor] = []  # handles whose arrays are gone, for those to come
        self.is_known = True  # to its form, where arrays look for it

    def forget(self) -> None:
        """Have no handle wait where no array will look: they have this place, and it has them."""
        self.is_known = False
        self.vacant.clear()


class ForeignStorage(Storage):
    """Bytes of another library. Its tensors count their offsets from address 0."""

    __slots__ = ("_group", "first", "is_vacant", "origin", "producer")

    _group: Group

    owns_bytes = False
    # What the bytes of others never are.
    address = 0
    is_fresh = _is_beginning = False
    _initialiser = None
    written_at_home = read_at_home = NOTHING_AT_HOME

    def __init__(self, device: Device, producer: Producer, place: Place, first: int) -> None:
        # All that a storage of ours has, but for what this one shares with its group.
        region = place.look.region
        self.device, self.nbytes, self.label = device, region.high - region.low, place.form.label
        frame = user_frame(_FROM_USERS)
        self._code, self._instruction = frame.f_code, frame.f_lasti
        self.serials = place.serials
        self._homeless = 0
        self.producer = producer
        self.is_vacant = False
        self.first = first  # the address of the first element
        self.origin = place
        self._allocation = place.allocation
        self._find_group()

    def _find_group(self) -> None:
        place = self.origin
        region = place.look.region
        low, high = region.low, region.high
        if low == high:
            self.join(Group(self.device, 0, 0))
            return
        place.group = found = RANGES.find(self, low, high, place.group)
        self.join(found)
        while found.heir is not None:  # a finaliser has bridged it meanwhile
            found = found.heir
            found.admit(self)
            self.join(found)

    def take(self, producer: Producer) -> None:
        """Stand for another array at the same place, which has come when the last one was gone.

        Nothing that a storage says of an array is that of the last one but where it was passed and
        by whom; all else is of the place, or of the group.
        """
        frame = user_frame(_FROM_PASSING)
        self._code, self._instruction = frame.f_code, frame.f_lasti
        # A group that has ended has left nothing to be ordered behind, and is found by nobody.
        if not RANGES.is_counted(self._group, self.origin.look.region):
            self._find_group()
        self.producer = producer
        self.is_vacant = False
        if self.is_forgotten:
            alone(self.device, self.begin_at_home)

    def leave(self) -> None:
        """Let the memory go, as `__del__` does, and wait for another array. The lock is held."""
        producer, self.producer = self.producer, _NOBODY
        leave(self._group, producer, self.nbytes)

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

    def begin_at_home(self) -> None:
        """Be at home on the library's stream, if it has one and nobody has used the memory yet."""
        if not self.is_forgotten:
            return
        device, producer = self.device, self.producer
        if self.serials:
            device.epoch += 1  # launches that were prepared have left their fences elsewhere
        if producer.has_one_stream:
            stream = producer.current_stream(device) or device.stream
            if stream.may_be_home and self._group.home is not stream:
                self._group.home = stream
                device.epoch += 1

    def join(self, group: Group) -> None:
        """Have one state with everybody whose memory can overlap."""
        self._group = group
        self.borrows, self._writes, self._reads = group.borrows, group.writes, group.reads
        self.shares = group.shares

    def why_not_written(self) -> str | None:
        """The producer's reason."""
        return self.producer.why_not_written()

    def materialise(self, stream: Stream) -> None:
        """The bytes are there; the array may have been moved or shrunk since it was passed."""
        del stream
        reason = self.why_not_there()
        if reason is not None:
            raise BorrowError(
                f"{self.label} of {self.producer.library}, passed at {self.site}, {reason}"
            )

    def why_not_there(self) -> str | None:
        """The producer's reason why the bytes are no longer those of the array."""
        return self.producer.why_not_there(self.first, self.origin.look.region.high)

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
        if group is not None and self.nbytes and not self.is_vacant:
            self.device.notes.append(Left(group, self.producer, self.nbytes))


# Whose array is gone.
_NOBODY = Producer(None)
