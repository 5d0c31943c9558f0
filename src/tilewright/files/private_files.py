"""Private files: only this user can have written them, and only this user can change the folder.

The cache folder may be in a place that other users write to: below /tmp, on a shared disk, in a
restored archive. A file is read or written only if it and each folder of the cache belongs to this
user, is not writable by others and is no symbolic link. Windows separates the folders of users
itself. An unusable folder is reported once and never fails a launch.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import warnings
from pathlib import Path

from tilewright.errors import CacheWarning

__all__ = [
    "Unusable",
    "check_folder",
    "check_root",
    "is_absent",
    "is_homeless",
    "make_folder",
    "make_root",
    "open_private",
    "read_private",
    "warn_once",
    "write_private",
]

_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
# Follow no link, inherit to no child process, and do not block on a named pipe.
_CAREFULLY = (
    getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
)


class Unusable(Exception):
    """A file or a folder that must not be used, with the reason."""


def make_root(path: Path) -> None:
    """Create the root folder, configured or default; raises `Unusable`."""
    if not is_homeless(path):
        make_folder(path, parents=True)
    check_root(path)


def is_homeless(path: Path) -> bool:
    """Whether a folder is relative to the home of a user who has none."""
    return path.parts[:1] == ("~",)


def check_root(path: Path) -> None:
    """Raise `Unusable` unless a folder, or the target of this user's link to it, is private."""
    if is_homeless(path):
        raise Unusable("this user has no home folder")
    try:
        found = path.lstat()
        if stat.S_ISLNK(found.st_mode):
            _check_owner(path, found)
            path = path.resolve(strict=True)
    except OSError as error:
        raise Unusable(f"{path} cannot be used: {error.strerror}") from error
    check_folder(path)


def is_absent(path: Path) -> bool:
    """Whether the path does not exist; False also if that is unknown."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def check_folder(path: Path) -> None:
    """Raise `Unusable` for a folder that is missing, a link, or writable by others."""
    try:
        found = path.lstat()
    except OSError as error:
        raise Unusable(f"{path} cannot be used: {error.strerror}") from error
    if not stat.S_ISDIR(found.st_mode):
        raise Unusable(f"{path} is no folder")
    _check(path, found, "700")


def make_folder(path: Path, *, parents: bool = False) -> None:
    """Create a private folder if it is missing; raises `Unusable`."""
    try:
        path.mkdir(mode=0o700, parents=parents, exist_ok=True)
    except OSError as error:
        raise Unusable(f"{path} cannot be made: {error.strerror}") from error


def open_private(path: Path, flags: int) -> int:
    """Open a private file and return its descriptor; raises `Unusable` or `OSError`."""
    handle = os.open(path, flags | _CAREFULLY, 0o600)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise Unusable(f"{path} is no file")
        _check(path, found, "600")
    except BaseException:
        os.close(handle)
        raise
    return handle


def read_private(path: Path, most: int) -> bytes:
    """Read a private file of bounded size; raises `Unusable` or `OSError`."""
    handle = open_private(path, os.O_RDONLY)
    with os.fdopen(handle, "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise Unusable(f"{path} has more than {most} bytes")
    return data


def write_private(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write a file atomically, replacing one of that name; raises `OSError`."""
    scratch = path.with_name(f"{path.name}.{secrets.token_hex(8)}.part")
    try:
        handle = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _CAREFULLY, mode)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        scratch.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            scratch.unlink()
        raise


def _check(path: Path, found: os.stat_result, mode: str) -> None:
    _check_owner(path, found)
    if os.name != "nt" and stat.S_IMODE(found.st_mode) & _OTHERS_MAY_WRITE:
        raise Unusable(f"{path} can be written by others: chmod {mode} it")


def _check_owner(path: Path, found: os.stat_result) -> None:
    getuid = getattr(os, "getuid", None)  # None on systems without file owners
    if getuid is not None and found.st_uid != getuid():
        raise Unusable(f"{path} belongs to another user")


_told: set[Path] = set()


def warn_once(folder: Path, text: str) -> None:
    """Warn that a folder is not used, once in a process."""
    if folder not in _told:
        _told.add(folder)
        warnings.warn(
            f"{text}. Kernels are compiled, and functions run, without it; TILEWRIGHT_CACHE names"
            " another folder, or is `off`",
            CacheWarning,
            stacklevel=2,
        )
