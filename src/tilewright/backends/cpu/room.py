"""The memory budget of a program: counted while it is emitted, before any array is allocated.

A file of a few bytes can request tiles, constants and globals of many gigabytes. A program counts
every array that it holds at once: its constants, and the tiles of one block, which live until the
block ends. Temporary arrays that NumPy makes within one op are not counted.
"""

from __future__ import annotations

from tilewright.errors import OutOfMemoryError
from tilewright.runtime.memory.pool import in_units

__all__ = ["Room"]


class Room:
    """Bytes taken, and their limit; without a limit they are only counted."""

    def __init__(self, what: str, limit: int | None = None, taken: int = 0) -> None:
        self._what = what
        self._limit = limit
        self.taken = taken

    def take(self, nbytes: int) -> None:
        """Count bytes that are about to be allocated."""
        self.taken += nbytes
        if self._limit is not None and self.taken > self._limit:
            raise OutOfMemoryError(
                f"{self._what} needs more than {in_units(self._limit)} of memory at once, which "
                "is the limit"
            )
