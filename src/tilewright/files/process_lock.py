"""A file lock between the processes of one machine.

The operating system releases the lock when its process ends, in whatever way, and the file stays.
The lock is a plain system call: libraries for file locks register fork hooks with the interpreter,
which slow down every launch. A system without file locks raises `OSError`, as does a folder in
which no file can be created.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tilewright.files.private_files import open_private

__all__ = ["Taken", "hold_lock"]

_ROUND_SECONDS = 0.02


class Taken(Exception):
    """The timeout has passed while another process held the lock."""


@contextlib.contextmanager
def hold_lock(path: Path, seconds: float) -> Iterator[None]:
    """Hold the lock of a file, which is created if it is missing; `seconds` is the timeout.

    Raises `Taken` after the timeout, `OSError` if the file cannot be created or locked, and
    `Unusable` for a link or another user's file.
    """
    deadline = time.monotonic() + seconds
    handle = open_private(path, os.O_RDWR | os.O_CREAT)
    try:
        while not _take(handle):
            if time.monotonic() >= deadline:
                raise Taken(str(path))
            time.sleep(_ROUND_SECONDS)
        try:
            yield
        finally:
            _give_back(handle)  # closing alone leaves it with a child forked meanwhile
    finally:
        os.close(handle)


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
