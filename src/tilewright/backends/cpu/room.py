"""How many bytes a program may take: counted while it is written, before anything is allocated.

A file of a few bytes can ask for tiles, constants and globals of many gigabytes. A program counts
every array that it will hold at once: its constants, and the tiles of one block, which live until
the block ends. Arrays that NumPy makes and drops within one op are not counted.
"""

from __future__ import annotations

from tilewright.errors import OutOfMemoryError
from tilewright.runtime.memory.pool import in_units

__all__ = ["Room"]


class Room:
    """Bytes that are taken, and the most that may be; without a limit they are only counted."""

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
