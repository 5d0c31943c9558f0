"""Host memory for the tensors of a CPU device, counted so that a limit can be set.

NumPy caches freed memory for the next array, so this pool caches none: the reserved bytes are the
bytes in use.
"""

from __future__ import annotations

from tilewright.backends.cpu.memory import KernelMemory
from tilewright.errors import OutOfMemoryError
from tilewright.runtime.devices.backend import ALIGNMENT, PoolStatistics
from tilewright.runtime.devices.process import ForkedLock

__all__ = ["CpuPool"]


class CpuPool:
    """Bytes in use, and their limit."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._lock = ForkedLock()  # workers free memory
        self._used = 0
        self._highest = 0

    def take(self, nbytes: int) -> KernelMemory:
        """Return aligned, uninitialised memory."""
        with self._lock:
            if self._limit is not None and self._used + nbytes > self._limit:
                raise OutOfMemoryError(
                    f"a pool of {self._limit} bytes, of which {self._used} are in use, has no room"
                    f" for {nbytes} bytes"
                )
            try:
                memory = KernelMemory.uninitialised(nbytes, ALIGNMENT)
            except MemoryError:
                raise OutOfMemoryError(f"the host has no room for {nbytes} bytes") from None
            self._used += nbytes
            self._highest = max(self._highest, self._used)
            return memory

    def give_back(self, memory: KernelMemory) -> None:
        """Release memory that is no longer in use."""
        with self._lock:
            self._used -= memory.array.size

    def statistics(self) -> PoolStatistics:
        """Return the bytes in use."""
        return PoolStatistics(self._used, self._highest, self._used, self._highest)

    def trim(self, keep: int) -> None:
        """Do nothing: free memory is not cached."""

    def reset_highest(self) -> None:
        """Reset the high-water mark."""
        with self._lock:
            self._highest = self._used
