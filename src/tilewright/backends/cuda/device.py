"""A GPU as a device of the runtime. Loaded by name on first CUDA use."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tilewright.backends.cuda.driver import Driver, missing_driver, open_driver
from tilewright.backends.cuda.graph import CudaGraph
from tilewright.backends.cuda.poller import Poller
from tilewright.backends.cuda.pool import CudaPool
from tilewright.backends.cuda.staging import Staging
from tilewright.backends.cuda.stream import AdoptedQueue, CudaAllocation, CudaQueue
from tilewright.runtime.devices.backend import Bytes, Recipe
from tilewright.runtime.order.failure import RECORD_WORDS, FailureRecord, RecordPool, Slot

__all__ = ["CudaBackend", "missing", "open_device"]

_RECORDS_AT_A_TIME = 256
_STREAMS_AHEAD = 32
_PLACES_LEFT = 32


class _PinnedRecords(RecordPool):
    """Records in pinned memory, which kernels write and the host reads without a driver call."""

    def __init__(self, driver: Driver) -> None:
        super().__init__()
        self._driver = driver

    def make_slots(self) -> Iterable[Slot]:
        words = _RECORDS_AT_A_TIME * RECORD_WORDS
        host, device = self._driver.allocate_pinned(words * 4)
        memory = np.ctypeslib.as_array((ctypes.c_int32 * words).from_address(host))
        memory[:] = 0
        for first in range(0, words, RECORD_WORDS):
            address = CudaAllocation(device + first * 4)
            yield Slot(memory[first : first + RECORD_WORDS], address)


class _StreamsAhead:
    """Streams that are created in advance, when the GPU is opened.

    Streams and branches of ready graphs occupy places in the driver. When no place is free, the
    next stream or graph waits until the GPU is idle: forever, if the GPU in turn waits for the
    caller. The device's lock is held.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._made = deque(driver.create_stream() for _ in range(_STREAMS_AHEAD))
        driver.make_room(_PLACES_LEFT)  # for more streams, for graphs, and for other libraries

    def take(self) -> Any:
        """Return a stream without other users."""
        return self._made.popleft() if self._made else self._driver.create_stream()


class CudaBackend:
    """One GPU."""

    runs = "cuda"
    can_run = True
    survives_fork = False
    needs_staging = True
    waits_by_working = False

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.target = driver.target
        self._records = _PinnedRecords(driver)
        self._streams = _StreamsAhead(driver)
        self._poller = Poller(driver)
        self._staging = Staging(driver)

    def resident_blocks(self, occupancy: int = 1, num_ctas: int = 1) -> int:
        """Return the number of resident blocks, if the assembler follows these hints."""
        return max(1, self.driver.multiprocessors * occupancy // num_ctas)

    def new_queue(self, label: str) -> CudaQueue:
        """Return a queue over a CUDA stream."""
        return CudaQueue(self.driver, self._poller, self._streams.take())

    def adopt_queue(self, number: int) -> CudaQueue:
        """Return a queue over a CUDA stream of another library."""
        return AdoptedQueue(self.driver, self._poller, self.driver.adopt_stream(number))

    def new_pool(self, release_threshold: int | None, limit: int | None) -> CudaPool:
        """Return a driver pool that only tilewright uses."""
        return CudaPool(self.driver, release_threshold, limit)

    def build_graph(self, nodes: Sequence[tuple[Recipe, tuple[int, ...]]]) -> CudaGraph:
        """Return a CUDA graph of explicit nodes."""
        return CudaGraph(self.driver, nodes)

    def take_record(self) -> FailureRecord:
        """Return a failure record in pinned memory."""
        return self._records.take()

    def stage(self, nbytes: int) -> Bytes | None:
        """Return pinned memory for contents in transit."""
        return self._staging.take(nbytes)

    def adopt(self, address: int, nbytes: int, *, read_only: bool) -> CudaAllocation:
        """Return memory of another library."""
        del nbytes, read_only
        return CudaAllocation(address)

    def end(self) -> None:
        """End the poller's thread."""
        self._poller.end()

    def owner_of(self, address: int) -> int:
        """Return the ordinal of the GPU that owns an address."""
        return self.driver.owner(address)


def missing() -> str | None:
    """Return the reason why no GPU can be used, or None if one can."""
    return missing_driver()


def open_device(ordinal: int) -> CudaBackend:
    """Open the GPU of an ordinal."""
    return CudaBackend(open_driver(ordinal))
