"""Free lists: memory whose last use is on a stream, for the next tensor of that size there.

The next use is on the same stream, so it is ordered behind the last one without an event, and the
driver is asked neither to free nor to allocate. Bound launches are found again by the address. A
list is bounded. It is given back to its pool when memory runs out, and before a pool is measured or
trimmed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.runtime.order.failure import Allocation

if TYPE_CHECKING:
    from tilewright.runtime.devices.stream import Stream
    from tilewright.runtime.memory.pool import Pool
    from tilewright.runtime.order.timeline import Timeline

__all__ = ["Free", "FreeList"]

_ALIKE = 8  # allocations of one size
_SIZES = 128
_BYTES = 256 << 20  # of all allocations
_LARGEST = 32 << 20  # kernels on larger tensors take much longer than the driver


class Free:
    """Memory without a storage, and its timeline, whose sole stream is that of the list."""

    __slots__ = ("allocation", "timeline")

    allocation: Allocation
    timeline: Timeline


class FreeList:
    """Allocations of one stream by size, from the device's usual pool."""

    __slots__ = ("_by_size", "_nbytes")

    def __init__(self) -> None:
        self._by_size: dict[int, list[Free]] = {}
        self._nbytes = 0

    def put(self, stream: Stream, free: Free, pool: Pool, nbytes: int) -> bool:
        """Keep an allocation; False if the caller has to free it."""
        is_kept = stream.may_be_sole and stream.is_plain and pool is stream.device.usual_pool
        if not is_kept or not 0 < nbytes <= _LARGEST or self._nbytes + nbytes > _BYTES:
            return False
        alike = self._by_size.get(nbytes)
        if alike is None:
            if len(self._by_size) >= _SIZES:
                return False
            alike = self._by_size[nbytes] = []
        if len(alike) >= _ALIKE:
            return False
        alike.append(free)
        self._nbytes += nbytes
        return True

    def take(self, stream: Stream, pool: Pool, nbytes: int) -> Free | None:
        """An allocation of a size, the most recent one."""
        alike = self._by_size.get(nbytes)
        if not alike or pool is not stream.device.usual_pool:
            return None
        self._nbytes -= nbytes
        return alike.pop()

    def count_references(self) -> int:
        """The references to the stream: of each timeline, and of each of its uses."""
        timelines = [free.timeline for alike in self._by_size.values() for free in alike]
        return sum(1 + len(set(map(id, timeline.uses))) for timeline in timelines)

    def empty(self, stream: Stream) -> None:
        """Free all allocations to the pool."""
        by_size, self._by_size, self._nbytes = self._by_size, {}, 0
        pool = stream.device.usual_pool
        for alike in by_size.values():
            for free in alike:
                assert pool is not None, "memory comes from the usual pool"
                stream.queue.free(free.allocation, pool.backend)
