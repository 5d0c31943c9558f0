"""A file store: files by key in a private folder, written atomically, bounded and checksummed.

The store has its own folder below the configured one, which may hold other files. The folder has a
marker file, and the store removes only files whose names follow its own pattern. A file has a
checksum of its key and contents; a file with another checksum is removed and counts as a miss. In a
folder that is read-only or full, writes do nothing: no error of the store fails a launch. Several
processes may use one folder at the same time.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import random
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tilewright.files.private_files import (
    Unusable,
    check_folder,
    check_root,
    make_folder,
    make_root,
    read_private,
    write_private,
)
from tilewright.files.process_lock import Taken, hold_lock

__all__ = ["FOLDER", "MARKER", "FileStore", "StoredFile"]

_log = logging.getLogger("tilewright")
FOLDER = "tilewright-kernels"  # below the configured folder
MARKER = "made-by-tilewright"  # name of the marker file
_MARK = b"Compiled kernels of tilewright, which may be removed at any time.\n"
_MAGIC = b"tilewrt2"
_HEADER = len(_MAGIC) + hashlib.sha256().digest_size
_MOST_BYTES = 1 << 30  # of a file
_EVICT_TO = 0.8  # fraction of the limit that an eviction leaves, so that evictions are rare
_LOOKS = 16  # expected number of size checks while the folder fills up once
_STALE_SECONDS = 3600  # age at which an unfinished file is taken as abandoned

# Names of the store's files.
_KEY = re.compile(r"[0-9a-f]{64}")
_SHELF = re.compile(r"[0-9a-f]{2}")
_SCRAP = re.compile(r"[0-9a-f]{64}\.[0-9a-f]{16}\.part")
_SCRAP_OF_MARKER = re.compile(rf"{MARKER}\.[0-9a-f]{{16}}\.part")  # of a killed process

_chance = random.Random()  # a generator of its own leaves the state of `random` alone


@dataclass(frozen=True)
class StoredFile:
    """One file of a store."""

    key: str
    nbytes: int
    last_used: float  # in seconds, by the file system's clock


class FileStore:
    """A bounded folder of files by key, with eviction of the least recently used."""

    def __init__(self, root: Path, limit: int) -> None:
        self.root = root
        self.folder = root / FOLDER
        self.limit = limit
        self._complained = False

    def prepare(self) -> None:
        """Create the folder; raises `Unusable` if it is not the store's, or not private."""
        make_root(self.root)
        make_folder(self.folder)
        self.check()
        try:
            if not (self.folder / MARKER).exists():
                write_private(self.folder / MARKER, _MARK)
        except OSError as error:
            raise Unusable(f"{self.folder} cannot be written: {error.strerror}") from error

    def check(self) -> None:
        """Raise `Unusable` for a folder that is missing or not private."""
        try:
            check_root(self.root)
            check_folder(self.folder)
            names = {entry.name for entry in os.scandir(self.folder)}
        except OSError as error:
            raise Unusable(f"{self.folder} cannot be read: {error.strerror}") from error
        if names and MARKER not in names and not all(map(_SCRAP_OF_MARKER.fullmatch, names)):
            raise Unusable(f"{self.folder} was not made by tilewright, which has left no marker")

    def path(self, key: str) -> Path:
        """The path of a key's file."""
        assert _KEY.fullmatch(key), f"{key!r} is no key"
        return self.folder / key[:2] / key

    def get(self, key: str) -> bytes | None:
        """The contents under a key; None for a missing or damaged file."""
        contents = self.peek(key)
        if contents is not None:
            with contextlib.suppress(OSError):  # a read-only folder is usable
                os.utime(self.path(key))
        return contents

    def peek(self, key: str) -> bytes | None:
        """Like `get`, without updating the last use."""
        if not _KEY.fullmatch(key):
            return None
        path = self.path(key)
        try:
            check_folder(path.parent)
            data = read_private(path, _MOST_BYTES)
        except (Unusable, OSError):
            return None
        contents = data[_HEADER:]
        if data[:_HEADER] != _header(key, contents):
            _log.warning("tilewright: %s is damaged and is removed", path)
            self.remove(key)
            return None
        return contents

    def put(self, key: str, contents: bytes) -> bool:
        """Write contents under a key; False if the folder refuses them."""
        data = _header(key, contents) + contents
        if len(data) > min(self.limit * _EVICT_TO, _MOST_BYTES):
            return False  # it would evict all other files, and then itself
        path = self.path(key)
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            check_folder(path.parent)
            write_private(path, data)
        except (Unusable, OSError) as error:
            if not self._complained:
                self._complained = True
                _log.warning("tilewright: nothing is kept in %s: %s", self.folder, error)
            return False
        # A random sample, because one process writes too few files to know the size of the folder.
        if len(data) > _chance.random() * self.limit / _LOOKS:
            self.evict()
        return True

    def remove(self, key: str) -> None:
        """Remove the file of a key."""
        with contextlib.suppress(OSError):
            self.path(key).unlink()

    def files(self) -> Iterator[StoredFile]:
        """All files of the store."""
        for entry in self._entries(_KEY):
            with contextlib.suppress(OSError):  # removed by another process
                found = entry.stat(follow_symlinks=False)
                yield StoredFile(entry.name, found.st_size, found.st_mtime)

    def _entries(self, name: re.Pattern[str]) -> Iterator[os.DirEntry[str]]:
        """The store's files whose names match a pattern; none in a folder without the marker."""
        try:
            self.check()
        except Unusable:
            return
        for shelf in _scanned(self.folder):
            if _SHELF.fullmatch(shelf.name) and shelf.is_dir(follow_symlinks=False):
                for entry in _scanned(shelf.path):
                    is_ours = name.fullmatch(entry.name) and entry.name.startswith(shelf.name)
                    if is_ours and entry.is_file(follow_symlinks=False):
                        yield entry

    def evict(self) -> int:
        """Remove the least recently used files beyond the limit; return their number."""
        try:
            with hold_lock(self.folder / "evicting.lock", 0):
                return self._evict()
        except (Taken, Unusable, OSError):
            return 0  # another process is evicting, or the folder is read-only

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
        """Remove unfinished files of processes that were killed."""
        for entry in self._entries(_SCRAP):
            with contextlib.suppress(OSError):
                if entry.stat(follow_symlinks=False).st_mtime < time.time() - _STALE_SECONDS:
                    Path(entry.path).unlink()

    def clear(self) -> int:
        """Remove all files of the store; return their number."""
        files = list(self.files())
        for file in files:
            self.remove(file.key)
        self._remove_scraps()
        return len(files)

    @contextlib.contextmanager
    def lock(self, key: str, seconds: float) -> Iterator[None]:
        """Hold the lock between processes for the contents of a key.

        Keys with a common prefix share a lock, which bounds the number of lock files.
        """
        folder = self.folder / "making"
        make_folder(folder)
        check_folder(folder)
        with hold_lock(folder / f"{key[:2]}.lock", seconds):
            yield


def _header(key: str, contents: bytes) -> bytes:
    return _MAGIC + hashlib.sha256(key.encode() + contents).digest()


def _scanned(folder: str | Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []
