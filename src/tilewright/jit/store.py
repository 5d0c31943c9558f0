"""Files by key in a private folder: written whole or not at all, bounded, and never just trusted.

A file carries a checksum of its contents; one that does not fit is removed and counts as absent. A
folder that cannot be written (read-only, full) makes every write a wish: nothing here fails a
launch. Several processes may use one folder at the same time.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import random
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tilewright.jit.process_lock import ProcessLock, Taken

__all__ = ["FileStore", "StoredFile", "Unusable"]

_log = logging.getLogger("tilewright")
_MAGIC = b"tilewrt1"
_HEADER = len(_MAGIC) + hashlib.sha256().digest_size
_EVICT_TO = 0.8  # of the limit, so that not every write evicts
_LOOKS = 16  # how often the size of the folder is looked at, on average, while it fills up once
_SCRATCH_SUFFIX = ".part"
_STALE_SECONDS = 3600  # after which whoever was writing a file is gone


_chance = random.Random()  # the numbers of users of `random` stay as they are


class Unusable(Exception):
    """A folder that must not be used, and why."""


@dataclass(frozen=True)
class StoredFile:
    """One file of a store."""

    key: str
    nbytes: int
    last_used: float  # seconds, as the file system counts them
    path: Path


class FileStore:
    """A folder with files by key; the least recently used go first when there are too many."""

    def __init__(self, root: Path, limit: int) -> None:
        self.root = root
        self.limit = limit
        self._complained = False

    def prepare(self) -> None:
        """Make the folder; raises `Unusable` if others could put files into it."""
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = self.root.stat()
        except OSError as error:
            raise Unusable(f"{self.root} cannot be made: {error.strerror}") from error
        if found.st_uid != os.getuid():
            raise Unusable(f"{self.root} belongs to another user")
        if stat.S_IMODE(found.st_mode) & 0o022:
            raise Unusable(f"{self.root} can be written by others: chmod 700 it")

    def path(self, key: str) -> Path:
        """Where a key's file lies."""
        return self.root / key[:2] / key

    def get(self, key: str) -> bytes | None:
        """The contents under a key; None if there are none, or they are damaged."""
        path = self.path(key)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        contents = data[_HEADER:]
        if data[:_HEADER] != _MAGIC + hashlib.sha256(contents).digest():
            _log.warning("tilewright: %s is damaged and is removed", path)
            self.remove(key)
            return None
        with contextlib.suppress(OSError):  # a read-only folder is no reason to fail
            os.utime(path)
        return contents

    def peek(self, file: StoredFile) -> bytes:
        """The contents of a file, without counting as a use of it."""
        try:
            return file.path.read_bytes()[_HEADER:]
        except OSError:
            return b""

    def put(self, key: str, contents: bytes) -> bool:
        """Keep contents under a key; False if the folder does not take them."""
        data = _MAGIC + hashlib.sha256(contents).digest() + contents
        if len(data) > self.limit * _EVICT_TO:
            return False  # it would drive out all others, and go itself
        try:
            self._write(self.path(key), data)
        except OSError as error:
            if not self._complained:
                self._complained = True
                _log.warning("tilewright: nothing is kept in %s: %s", self.root, error)
            return False
        # Now and then, by chance: most processes write too little to know how full the folder is.
        if len(data) > _chance.random() * self.limit / _LOOKS:
            self.evict()
        return True

    def _write(self, path: Path, data: bytes) -> None:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        handle, scratch = tempfile.mkstemp(suffix=_SCRATCH_SUFFIX, dir=path.parent)  # private
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(scratch).replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(scratch).unlink()
            raise

    def remove(self, key: str) -> None:
        """Forget a key."""
        with contextlib.suppress(OSError):
            self.path(key).unlink()

    def files(self) -> Iterator[StoredFile]:
        """Every file there is now."""
        for path in self.root.glob("??/*"):
            if path.suffix != _SCRATCH_SUFFIX:
                with contextlib.suppress(OSError):  # another process may have removed it
                    found = path.stat()
                    yield StoredFile(path.name, found.st_size, found.st_mtime, path)

    def evict(self) -> int:
        """Remove the least recently used files beyond the limit; gives how many."""
        try:
            with ProcessLock(self.root / "evicting.lock", 0):
                return self._evict()
        except (Taken, OSError):
            return 0  # another process is at it, or nothing can be removed

    def _evict(self) -> int:
        self._remove_scraps()
        files = sorted(self.files(), key=lambda file: file.last_used, reverse=True)
        if sum(file.nbytes for file in files) <= self.limit:
            return 0
        kept = removed = 0
        for file in files:
            kept += file.nbytes
            if kept > self.limit * _EVICT_TO:
                self.remove(file.key)
                removed += 1
        return removed

    def _remove_scraps(self) -> None:
        """What processes left that were killed while they wrote."""
        for path in self.root.glob(f"??/*{_SCRATCH_SUFFIX}"):
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < time.time() - _STALE_SECONDS:
                    path.unlink()

    def clear(self) -> int:
        """Remove everything; gives how many files there were."""
        count = sum(1 for _ in self.files())
        for folder in self.root.glob("??"):
            shutil.rmtree(folder, ignore_errors=True)
        return count

    def lock(self, key: str, seconds: float) -> ProcessLock:
        """A lock between processes, for whoever makes the contents of a key.

        Keys that begin alike share one, so that there is never more than a handful of files.
        """
        folder = self.root / "making"
        folder.mkdir(mode=0o700, exist_ok=True)
        return ProcessLock(folder / f"{key[:2]}.lock", seconds)
