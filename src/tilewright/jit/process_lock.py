"""A lock between processes on one machine: a file that one of them has locked.

The system takes the lock off a process that ends, however that ends, and the file stays. It is the
plain call of the system, since libraries for this watch the whole process for forks (by a hook of
the interpreter that makes every launch slower) and do more than is needed here.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Self

__all__ = ["ProcessLock", "Taken"]

_ROUND_SECONDS = 0.02


class Taken(Exception):
    """Somebody else has had the lock all the time."""


class ProcessLock:
    """The lock of a file, which is made if it is not there; raises `OSError` if that fails."""

    def __init__(self, path: Path, seconds: float) -> None:
        self._path = path
        self._seconds = seconds  # to wait for it
        self._handle: int | None = None

    def acquire(self) -> None:
        """Wait for the lock; raises `Taken` when the time is over."""
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + self._seconds
        try:
            while not _try(handle):
                if time.monotonic() >= deadline:
                    raise Taken(str(self._path))
                time.sleep(_ROUND_SECONDS)
        except BaseException:
            os.close(handle)
            raise
        self._handle = handle

    def release(self) -> None:
        """Let the next one have it."""
        if self._handle is not None:
            handle, self._handle = self._handle, None
            fcntl.flock(
                handle, fcntl.LOCK_UN
            )  # closed alone, a child forked meanwhile would keep it
            os.close(handle)

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()


def _try(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
