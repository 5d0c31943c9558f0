"""A lock between processes on one machine: a file that one of them has locked.

The system takes the lock off a process that ends, however that ends, and the file stays. It is the
plain call of the system, since libraries for this watch the whole process for forks (by a hook of
the interpreter that makes every launch slower) and do more than is needed here. A system without
such a call raises `OSError`, as a folder does in which no file can be made.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tilewright.jit.cache.private_files import open_private

__all__ = ["ProcessLock", "Taken"]

_ROUND_SECONDS = 0.02


class Taken(Exception):
    """Another process has had the lock all the time."""


class ProcessLock:
    """The lock of a file, which is made if it is not there.

    Raises `OSError` if that fails, and `Unusable` for a file of another user's, or a link.
    """

    def __init__(self, path: Path, seconds: float) -> None:
        self._path = path
        self._seconds = seconds  # to wait for it
        self._handle: int | None = None
        self._is_held = False

    def acquire(self) -> None:
        """Wait for the lock; raises `Taken` when the time is over."""
        deadline = time.monotonic() + self._seconds
        try:
            self._handle = open_private(self._path, os.O_RDWR | os.O_CREAT)
            while not _take(self._handle):
                if time.monotonic() >= deadline:
                    raise Taken(str(self._path))
                time.sleep(_ROUND_SECONDS)
            self._is_held = True
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Let the next process have it; nothing happens if it was not taken."""
        handle, self._handle = self._handle, None
        is_held, self._is_held = self._is_held, False
        if handle is not None:
            try:
                if is_held:
                    _give_back(handle)  # closed alone, a child forked meanwhile would keep it
            finally:
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


if sys.platform == "win32":
    import msvcrt

    def _take(handle: int) -> bool:
        os.lseek(handle, 0, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # the first byte stands for the file
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EDEADLK):
                return False
            raise
        return True

    def _give_back(handle: int) -> None:
        os.lseek(handle, 0, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)

else:
    try:
        import fcntl
    except ImportError:

        def _take(handle: int) -> bool:
            raise OSError(errno.ENOTSUP, "this system locks no files")

        def _give_back(handle: int) -> None:
            """Nothing was taken."""

    else:

        def _take(handle: int) -> bool:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

        def _give_back(handle: int) -> None:
            fcntl.flock(handle, fcntl.LOCK_UN)
