"""A stream-ordered memory pool of a GPU that only tilewright uses.

The driver's default pool is shared with torch and every other library of the process; a private
pool has statistics of its own. A new pool releases all free memory at once, which makes the next
allocation slow, so a threshold is set: by default the pool retains all memory.
"""

from __future__ import annotations

from tilewright.backends.cuda.driver import Driver
from tilewright.runtime.devices.backend import PoolStatistics

__all__ = ["CudaPool"]

_KEEP_ALL = 2**64 - 1


class CudaPool:
    """One pool of the driver."""

    def __init__(self, driver: Driver, release_threshold: int | None, limit: int | None) -> None:
        self._driver = driver
        self.handle = driver.create_pool(limit or 0)
        threshold = _KEEP_ALL if release_threshold is None else release_threshold
        driver.set_release_threshold(self.handle, threshold)

    def statistics(self) -> PoolStatistics:
        """Return the bytes in use and reserved."""
        return PoolStatistics(*self._driver.pool_statistics(self.handle))

    def trim(self, keep: int) -> None:
        """Release free memory, except for `keep` bytes."""
        self._driver.trim_pool(self.handle, keep)

    def reset_highest(self) -> None:
        """Reset the high-water marks."""
        self._driver.reset_pool_statistics(self.handle)
