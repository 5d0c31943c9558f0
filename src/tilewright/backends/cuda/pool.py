"""A stream-ordered memory pool of a GPU that belongs to us alone.

The driver's default pool is shared with torch and whoever else lives in the process; one of our own
makes the statistics ours. A pool that is owned starts by giving everything back as soon as it is
free, which makes the next allocation slow, so a threshold is set: by default it keeps all.
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
        """How much is in use."""
        return PoolStatistics(*self._driver.pool_statistics(self.handle))

    def trim(self, keep: int) -> None:
        """Give unused memory back, all but `keep` bytes."""
        self._driver.trim_pool(self.handle, keep)

    def reset_highest(self) -> None:
        """Let the highest numbers start again."""
        self._driver.reset_pool_statistics(self.handle)
