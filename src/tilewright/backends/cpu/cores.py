"""The cores of the process, shared between the kernels that run at the same time.

Each stream runs one kernel at a time, on at least one thread; helping threads are granted as long
as cores are left. A BLAS with threads of its own splits a product evenly and waits for the slowest
part, so on a machine whose cores are busy otherwise it is slower than one thread: `are_free` tells.
"""

from __future__ import annotations

import os
from time import monotonic

from tilewright.runtime.devices.process import ForkedLock, in_children, usable_cores

__all__ = ["CORES", "Cores"]

_SECONDS = 1.0  # for which a load average is trusted


class Cores:
    """Threads that run blocks, and the load of the machine."""

    def __init__(self) -> None:
        self._lock = ForkedLock()
        self._taken = 0
        self._load = 0.0
        self._is_stale_after = 0.0
        in_children(self._begin)

    def _begin(self) -> None:
        self._taken = 0  # a forked child has none of the threads

    def take(self, wanted: int) -> int:
        """Return the number of threads granted, at least one; `give_back` ends their use."""
        with self._lock:
            granted = max(1, min(wanted, usable_cores() - self._taken))
            self._taken += granted
            return granted

    def give_back(self, granted: int) -> None:
        """End the use of some threads."""
        with self._lock:
            self._taken = max(self._taken - granted, 0)

    def are_free(self) -> bool:
        """Whether no other kernel runs, and the machine has been idle otherwise."""
        return self._taken <= 1 and self._recent_load() <= usable_cores() / 2

    def _recent_load(self) -> float:
        """Return the tasks that have wanted a core in the last minute, on average."""
        now = monotonic()
        if now > self._is_stale_after:
            self._load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
            self._is_stale_after = now + _SECONDS
        return self._load


# The cores of this process.
CORES = Cores()
