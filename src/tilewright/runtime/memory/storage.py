"""Storages: bytes of a device, and the timeline of their uses.

Tensors and views are handles on a storage and keep no order of their own, so two handles on the
same bytes cannot disagree. Bytes are allocated on the stream of the first use, and freed after the
last one. Everything but creation and the finaliser runs under the device's lock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import CodeType
from typing import Any
from weakref import ref

from tilewright.native import slots_in_c
from tilewright.runtime.devices.backend import ALIGNMENT
from tilewright.runtime.devices.device import Device
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.memory.free_list import Free
from tilewright.runtime.memory.pool import Pool, allocate
from tilewright.runtime.memory.regions import Region
from tilewright.runtime.ops.call_site import CallSite, user_frame
from tilewright.runtime.order.critical import critical, insist
from tilewright.runtime.order.deferred import Postponed
from tilewright.runtime.order.failure import Allocation
from tilewright.runtime.order.timeline import Timeline, Use

__all__ = ["FROM_USERS", "Initialiser", "Maker", "Storage"]

# Least number of frames between a user's call and the storage of a tensor that one of our functions
# makes.
FROM_USERS = 5


@slots_in_c
class Storage:
    """Bytes on one device."""

    __slots__ = (
        "__weakref__", "_allocation", "_born", "_code", "_initialiser", "_instruction", "address",
        "device", "label", "nbytes", "pool", "timeline",
    )  # fmt: skip

    alignment = ALIGNMENT
    owns_bytes = True  # they are allocated from one of our pools and freed to it
    timeline: Timeline

    def __init__(
        self,
        device: Device,
        nbytes: int,
        initialiser: Initialiser | None,
        label: str,
        depth: int = 2,
        pool: Pool | None = None,
        stream: Stream | None = None,
    ) -> None:
        """Make a storage for the user's call `depth` frames up or further.

        `stream` is that of the first use, if it is not the current one.
        """
        self.device = device
        self.nbytes = nbytes
        self.label = label
        # The pool of the device, without a call where none is chosen by a context.
        self.pool = pool or (not device.pools.values and device.usual_pool) or device.pool
        frame = user_frame(depth)
        self._code, self._instruction = frame.f_code, frame.f_lasti
        self.address = 0  # in the device's address space; known from the first submission on
        self._allocation: Allocation | None = None
        self._initialiser = initialiser
        # The point of its stream where it took bytes of the free list, while every use is known.
        self._born: tuple[Stream, int] | None = None
        if initialiser is not None or not nbytes or not self._take_bytes(stream):
            self.timeline = Timeline(device)

    def _take_bytes(self, stream: Stream | None) -> bool:
        """Take bytes of a stream's free list, by default the current one's, if it has this size.

        A tensor has its address then, so that a launch bound to that address is found again.
        """
        device = self.device
        if stream is None:
            stream = device.stream if device.current.values else device.default
            if stream is None:
                return False
        with device.lock:
            if device.busy is not None or device.forked:
                return False
            if device.deferred:
                device.deferred.settle(device)
            free = stream.free_list.take(stream, self.pool, self.nbytes)
            if free is None:
                return False
            self.timeline = free.timeline
            self._allocation = allocation = free.allocation
            self.address = allocation.address
            device.storages[id(allocation)] = ref(self)
            self._born = stream, stream.issued
            return True

    @property
    def site(self) -> CallSite:
        """The line that made it."""
        return CallSite(self._code, self._instruction)

    def sign(self, code: CodeType, instruction: int) -> None:
        """Set the site that messages name: the user's call that needed the storage."""
        self._code, self._instruction = code, instruction

    @property
    def allocation(self) -> Allocation:
        """The bytes; they exist from the first submission on."""
        assert self._allocation is not None, "the storage has not been used by a submission yet"
        return self._allocation

    def place(self, offset: int) -> int:
        """Offset of a byte in the allocation: offsets in foreign memory count from address 0."""
        return self.address + offset - self.allocation.address

    @property
    def is_lazy(self) -> bool:
        """Whether the bytes are not allocated yet."""
        return self._allocation is None

    @property
    def is_fresh(self) -> bool:
        """Whether no submission has used the bytes, and there are no first contents."""
        if self._initialiser is not None or not self.owns_bytes:
            return False
        if self._allocation is None:
            return True
        if self._born is None or self.timeline.graphs:
            return False
        stream, count = self._born
        return all(use.stream is stream and use.count <= count for use in self.timeline.uses)

    def lend(self) -> None:
        """Have the bytes count as used: other libraries use them, which no use may record."""
        self._born = None

    @property
    def is_unmade(self) -> bool:
        """Whether the bytes or their first contents are missing."""
        return self._allocation is None or self._initialiser is not None

    def check_there(self, array: Any = None) -> None:
        """Refuse the operation if another library has moved or shrunk the memory."""

    def kept(self, array: Any) -> Storage:
        """The same memory, as a storage that keeps an array of another library."""
        del array
        return self

    def keep(self, array: Any, stream: Stream) -> None:
        """Keep an array of another library until the work on a stream has completed."""

    def find_timeline(self) -> Timeline:
        """The timeline that records later uses. Called in a critical section."""
        return self.timeline

    def shares_memory(self, other: Storage) -> bool:
        """Whether regions of both can overlap."""
        return self.timeline is other.timeline

    def why_not_written(self, array: Any = None) -> str | None:
        """The reason why the memory may not be written; None if it may."""
        del array
        return None

    def note_write(self, array: Any = None) -> None:
        """Tell another library that its contents change."""

    def materialise(self, stream: Stream) -> None:
        """Allocate and initialise on the stream of the first use.

        Not in a critical section: making room may wait, and first contents may be written by
        operations. Calls in between see a storage without bytes, or with bytes and contents.
        """
        device, initialiser = self.device, self._initialiser
        if self._allocation is not None:
            if initialiser is not None:
                critical(device, "first contents", self._initialise, stream)
        elif isinstance(initialiser, Maker):
            critical(device, "first contents", self._take_over, initialiser.make(self, stream))
        elif not critical(device, "an allocation", self._find_free, stream):
            critical(device, "an allocation", self._have, allocate(self, stream), stream)

    def _find_free(self, stream: Stream) -> bool:
        """Take bytes from a stream's free list; False if it has none of this size."""
        free = stream.free_list.take(stream, self.pool, self.nbytes)
        if free is None:
            return False
        try:
            self._have_free(free)
        except BaseException:
            insist(partial(self._have_free, free))
            raise
        if self._initialiser is not None:
            self._initialise(stream)
        return True

    def _have_free(self, free: Free) -> None:
        """Adopt bytes and their uses; the bytes first, since a sole stream promises bytes."""
        self._adopt(free.allocation)
        self.timeline.merge(free.timeline)
        if self._initialiser is not None:
            self.timeline.stream = None  # until the contents are written

    def _have(self, allocation: Allocation, stream: Stream) -> None:
        """Adopt new bytes, unless a call has adopted others while room was made."""
        if self._allocation is not None:
            stream.queue.free(allocation, self.pool.backend)
            return
        try:
            self._adopt(allocation)
            if self._initialiser is None:  # bytes without contents have a sole stream, too
                self._put_whole(stream)
            else:
                self._initialise(stream)
        except BaseException:
            if not self.timeline.uses:
                self._come_after(stream)
            raise

    def _initialise(self, stream: Stream) -> None:
        """Put the first contents on a stream, unless another call has done so."""
        initialise, timeline = self._initialiser, self.timeline
        if not callable(initialise):
            return
        # Ordered behind a first attempt that failed.
        timeline.order(stream, Region.whole(self.nbytes), writes=True)
        try:
            initialise(self, stream)
            self._put_whole(stream)
            self._initialiser = None
        except BaseException:
            # The contents may be on the stream. Without a sole stream the next use tries again.
            self._come_after(stream)
            raise

    def _come_after(self, stream: Stream) -> None:
        """Order all uses behind a stream on which writing the contents was interrupted."""
        insist(partial(self.timeline.come_after, Region.whole(self.nbytes), stream))

    def _take_over(self, made: Storage) -> None:
        """Adopt the bytes of a storage with the first contents, unless another call has done so."""
        if self._allocation is not None:
            return
        try:
            self._exchange(made)
        except BaseException:
            insist(partial(self._exchange, made))
            raise

    def _exchange(self, made: Storage) -> None:
        self.timeline.merge(made.timeline)
        # No calls: a signal handler raises before all of these assignments or after them.
        if made._allocation is not None:
            self._allocation, made._allocation = made._allocation, None
            self._initialiser = None
            self.address = made.address
        self.device.storages[id(self._allocation)] = ref(self)

    def like(self) -> Storage:
        """A storage of the same size from the same pool, without contents."""
        made = Storage(self.device, self.nbytes, None, self.label, pool=self.pool)
        made.sign(self._code, self._instruction)
        return made

    def _adopt(self, allocation: Allocation) -> None:
        self._allocation, self.address = allocation, allocation.address
        self.device.storages[id(allocation)] = ref(self)

    def _put_whole(self, stream: Stream) -> None:
        count = stream.advance()
        use = Use(self.timeline, Region.whole(self.nbytes), writes=True)
        self.timeline.put(use, stream, count, stream.watch(count, None, ()))

    def __del__(self) -> None:
        # No lock and no driver call: the collector may run this at any point.
        allocation = getattr(self, "_allocation", None)
        if allocation is not None:
            freed = _Freed(self.pool, allocation, self.nbytes, self.timeline)
            self.device.deferred.append(freed)


class _Freed(Free):
    """Deferred work: the bytes of a dropped storage are freed after their last use."""

    __slots__ = ("may_be_repeated", "nbytes", "pool")

    def __init__(self, pool: Pool, allocation: Allocation, nbytes: int, timeline: Timeline) -> None:
        self.pool = pool
        self.nbytes = nbytes
        self.allocation = allocation
        self.timeline = timeline
        self.may_be_repeated = True

    def settle(self) -> None:
        """Free on the stream of the last use, ordered after the uses on other streams."""
        stream = self.timeline.stream
        self.pool.device.storages.pop(id(self.allocation), None)
        if stream is None or not stream.is_plain:
            stream = self._find_stream()
            if stream is None:
                return
        self.may_be_repeated = False  # a double free is worse than a leak
        may_keep = self.timeline.stream is not None and self.timeline.held is None
        if not may_keep:
            may_keep = self._begin_anew(stream)
        if not may_keep or not stream.free_list.put(stream, self, self.pool, self.nbytes):
            stream.queue.free(self.allocation, self.pool.backend)

    def _find_stream(self) -> Stream | None:
        """The stream of the last use, behind all uses; None if a capture postpones the free."""
        device, timeline, uses = self.pool.device, self.timeline, self.timeline.uses
        stream = timeline.stream
        if stream is None:
            some = device.streams[0]  # the bytes were allocated on one of them
            stream = max(uses, key=lambda use: use.count).stream if uses else some
        captured = self._find_captured(stream)
        if captured is not None:
            captured.keep(Postponed(device, self))
            captured.advance()
            return None
        if timeline.stream is None:
            for use in uses:
                stream.wait_for(use.stream, use.count)
        return stream

    def _begin_anew(self, stream: Stream) -> bool:
        """Give the bytes a timeline whose sole stream this is; False if uses are on others."""
        if any(use.stream is not stream for use in self.timeline.uses):
            return False  # the free is ordered behind the waits
        self.timeline = Timeline(self.pool.device)
        use = Use(self.timeline, Region.whole(self.nbytes), writes=True)
        self.timeline.put(use, stream, stream.issued, None)
        return True

    def _find_captured(self, last: Stream) -> Stream | None:
        """A stream that another library captures: no free may be put on it now."""
        for stream in (last, *(use.stream for use in self.timeline.uses)):
            if not stream.is_plain and stream.queue.is_capturing():
                return stream
        return None


@dataclass(frozen=True, slots=True)
class Maker:
    """First contents that operations write, into a storage of their own with the same extent."""

    fill: Callable[[Storage, Stream], object]

    def make(self, wanted: Storage, stream: Stream) -> Storage:
        """A storage with the contents, written on a stream; its bytes are adopted by `wanted`."""
        made = wanted.like()
        self.fill(made, stream)
        return made


# Puts the first contents of a storage on a stream, in a critical section; or makes them.
Initialiser = Callable[[Storage, Stream], None] | Maker
