"""A file lock between the processes of one machine.

The operating system releases the lock when its process ends, in whatever way, and the file stays.
The lock is a plain system call: libraries for file locks register fork hooks with the interpreter,
which slow down every launch. A system without file locks raises `OSError`, as does a folder in
which no file can be created.
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
    """The timeout has passed while another process held the lock."""


class ProcessLock:
    """The lock of a file, which is created if it is missing.

    Raises `OSError` if that fails, and `Unusable` for a link or another user's file.
    """

    def __init__(self, path: Path, seconds: float) -> None:
        self._path = path
        self._seconds = seconds  # timeout
        self._handle: int | None = None
        self._is_held = False

    def acquire(self) -> None:
        """Wait for the lock; raises `Taken` after the timeout."""
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
        """Release the lock, if it is held."""
        handle, self._handle = self._handle, None
        is_held, self._is_held = self._is_held, False
        if handle is not None:
            try:
                if is_held:
                    _give_back(handle)  # closing alone leaves it with a child forked meanwhile
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
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # one byte is locked in place of the file
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
