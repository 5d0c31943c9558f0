"""CUDA streams as queues: progress is queried only on demand.

Operations record no events. Another stream waits through one event of this stream, recorded at that
moment: it covers all work submitted so far, which includes the requested operation.
"""

from __future__ import annotations

import ctypes
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

from tilewright.backends.cuda.driver import Driver
from tilewright.backends.cuda.poller import Poller
from tilewright.backends.cuda.pool import CudaPool
from tilewright.errors import LaunchError
from tilewright.runtime.devices.backend import Bytes, Tell
from tilewright.runtime.devices.device import LEGACY_STREAM
from tilewright.runtime.devices.function import LaunchShape

__all__ = ["AdoptedQueue", "CudaAllocation", "CudaHold", "CudaQueue", "CudaStamp"]

_SPIN_NANOSECONDS = 30_000  # a launch and a small kernel


class CudaAllocation(NamedTuple):
    """Device memory by its address."""

    address: int


class CudaHold:
    """A stream held by a test, until a word in memory releases it."""

    def __init__(self, driver: Driver) -> None:
        host, self.address = driver.allocate_pinned(4)
        self._word = ctypes.c_int32.from_address(host)
        self._word.value = 0

    def release(self) -> None:
        """Let the stream continue."""
        self._word.value = 1


@dataclass(frozen=True, slots=True)
class CudaStamp:
    """An event with its time."""

    driver: Driver
    event: Any

    def seconds_since(self, earlier: CudaStamp) -> float:
        """Return the seconds by the GPU's clock, whose resolution is about half a microsecond."""
        return self.driver.seconds_between(earlier.event, self.event)


class CudaQueue:
    """One CUDA stream."""

    may_raise = False
    is_adopted = False  # owned by another library
    may_be_recorded = False

    def __init__(self, driver: Driver, poller: Poller, handle: Any) -> None:
        self.driver = driver
        self.handle = handle
        self.number = driver.stream_number(handle)
        self._poller = poller
        self.known = 0
        self.marked = 0
        self._event: Any = None
        self._milestone: Any = None  # an event after operation `_reached_there`
        self._reached_there = 0  # 0 if there is no event
        self._holds: list[CudaHold] = []

    def is_capturing(self) -> bool:
        """Return False: graphs are recorded node by node, never captured."""
        return False

    def completed(self) -> int:
        """Return the number of the last completed operation."""
        marked = self.marked  # read first, since the query does not cover work enqueued meanwhile
        if self.known < marked and self.driver.query_stream(self.handle):
            self.known = max(self.known, marked)
        return self.known

    def progress(self) -> int:
        """Return the same for a stream that is never idle: a later call queries an event."""
        if self.completed() == self.marked or self.is_capturing():
            return self.known
        if self._milestone is None:
            self._milestone = self.driver.create_event()
        if self._reached_there and self.driver.query_event(self._milestone):
            self.known, self._reached_there = max(self.known, self._reached_there), 0
        if not self._reached_there:
            self._reached_there = self.marked
            self.driver.record_event(self._milestone, self.handle)
        return self.known

    def wait(self, count: int) -> None:
        """Block until operation `count` has completed."""
        marked = self.marked
        assert count <= marked, "only a submitted operation can be waited for"
        self.driver.synchronize_stream(self.handle)
        if marked > self.known:
            self.known = marked

    def passes_soon(self, count: int) -> bool:
        """Whether operation `count` has completed; polls for the length of a typical launch."""
        deadline = time.perf_counter_ns() + _SPIN_NANOSECONDS
        while self.completed() < count:
            if time.perf_counter_ns() > deadline:
                return False
        return True

    def when_completed(self, count: int, tell: Tell) -> None:
        """Call `tell` on the poller's thread, when all work so far has completed."""
        assert count <= self.marked, "only a submitted operation can be waited for"
        self._poller.watch(self.handle, tell)

    def order_after(self, other: CudaQueue, count: int) -> int:
        """Wait for all current work of the other queue."""
        assert count <= other.marked, "only a submitted operation can be waited for"
        if self.is_capturing() or other.is_capturing():
            raise _recorded()  # an event would make both streams part of the capture
        if other._event is None:
            other._event = self.driver.create_event()
        self.driver.record_event(other._event, other.handle)
        self.driver.wait_event(self.handle, other._event)
        return other.marked

    def take_error(self, count: int) -> BaseException | None:
        """Return None: a kernel reports through its record, the driver through the next call."""
        return None

    def hold(self) -> CudaHold:
        """Hold the stream before its next work: it waits for a word in pinned memory."""
        hold = CudaHold(self.driver)
        self.driver.wait_value(self.handle, hold.address, 1)
        self._holds.append(hold)
        return hold

    def end_holds(self) -> None:
        """Release every hold: the process ends."""
        for hold in self._holds:
            hold.release()

    def stamp(self) -> CudaStamp:
        """Record a timing event."""
        event = self.driver.create_timing_event()
        self.driver.record_event(event, self.handle)
        return CudaStamp(self.driver, event)

    @property
    def tail(self) -> object:
        """Unknown: only the driver has it."""
        return object()

    def make_room(self) -> None:
        """Do nothing: the driver bounds its queues itself."""

    def stop_all(self) -> None:
        """Do nothing: a kernel on a GPU ends by itself."""

    def restart(self) -> None:
        """Do nothing: a forked child may not use CUDA."""

    def allocate(self, nbytes: int, pool: CudaPool) -> CudaAllocation:
        """Allocate stream-ordered memory."""
        return CudaAllocation(self.driver.allocate(nbytes, pool.handle, self.handle))

    def free(self, allocation: CudaAllocation, pool: CudaPool) -> None:
        """Free memory after all work so far; the driver knows its pool."""
        del pool
        self.driver.free(allocation.address, self.handle)

    def launch(self, kernel: Any, blocks: int, parameters: int) -> None:
        """Launch a one-dimensional grid; the driver copies the parameters before this returns."""
        self.driver.launch(kernel, blocks, parameters, self.handle)

    def launch_shape(self, kernel: Any, shape: LaunchShape, parameters: int) -> None:
        """Launch blocks of threads; the driver copies the parameters before this returns."""
        self.driver.launch_shape(kernel, shape, parameters, self.handle)

    def fill(
        self, allocation: CudaAllocation, pattern: bytes, repeats: int, offset: int = 0
    ) -> None:
        """Fill memory with a repeated pattern."""
        if pattern == pattern[:1] * len(pattern):
            pattern, repeats = pattern[:1], repeats * len(pattern)
        self.driver.fill(allocation.address + offset, pattern, repeats, self.handle)

    def copy(
        self,
        target: CudaAllocation,
        target_offset: int,
        source: CudaAllocation,
        offset: int,
        nbytes: int,
    ) -> None:
        """Copy bytes on the device."""
        to, from_ = target.address + target_offset, source.address + offset
        self.driver.copy(to, from_, nbytes, self.handle)

    def upload(self, allocation: CudaAllocation, source: Bytes) -> None:
        """Copy host bytes in."""
        self.driver.copy_in(allocation.address, source.ctypes.data, source.size, self.handle)

    def download(self, allocation: CudaAllocation, offset: int, target: Bytes) -> None:
        """Copy bytes out."""
        address = allocation.address + offset
        self.driver.copy_out(target.ctypes.data, address, target.size, self.handle)


class AdoptedQueue(CudaQueue):
    """A stream of another library, which may be capturing a graph on it."""

    is_adopted = True

    def __init__(self, driver: Driver, poller: Poller, handle: Any) -> None:
        super().__init__(driver, poller, handle)
        self.may_be_recorded = self.number != LEGACY_STREAM  # the default stream never is

    def is_capturing(self) -> bool:
        """Query the driver."""
        return self.may_be_recorded and self.driver.is_capturing(self.handle)

    def completed(self) -> int:
        """Return the number of the last completed operation; no query disturbs a capture."""
        return self.known if self.is_capturing() else super().completed()

    def wait(self, count: int) -> None:
        """Block until operation `count` has completed, unless the stream is being captured."""
        if self.is_capturing():
            raise _recorded()
        super().wait(count)

    def when_completed(self, count: int, tell: Tell) -> None:
        """Do the same for an asynchronous wait."""
        if self.is_capturing():
            raise _recorded()
        super().when_completed(count, tell)


def _recorded() -> LaunchError:
    return LaunchError(
        "another library is recording a CUDA graph on its stream, and nothing can be waited for"
        " until that has ended"
    )
