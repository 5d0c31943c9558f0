"""Files of a user's tuned configurations, which only this user can have written.

An unusable folder is reported once, and the shipped configurations are used.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tilewright.errors import TuneError
from tilewright.files.private_files import (
    Unusable,
    check_folder,
    check_root,
    is_absent,
    is_homeless,
    make_folder,
    make_root,
    read_private,
    warn_once,
)
from tilewright.jit.loader import disk_cache
from tilewright.settings import current_settings

__all__ = ["OwnFile", "make_own_folder", "own_file", "read_own_file", "write_own_file"]

_MOST_BYTES = 64 << 20  # of a file


class OwnFile(NamedTuple):
    """A file of the user's, and its contents."""

    file: Path
    data: bytes


class _FilePlace(NamedTuple):
    root: Path  # the folder that the user names
    folder: Path  # the folder of the records, possibly the same


def own_file(target: str) -> Path | None:
    """Return the path of the user's records for a target, or None if they are not kept."""
    place = _place()
    return None if place is None else place.folder / f"{target}.json"


def read_own_file(target: str) -> OwnFile | None:
    """Return the user's records for a target, or None if there are none that can be trusted."""
    place = _place()
    if place is None:
        return None
    file = place.folder / f"{target}.json"
    if is_absent(file) and not is_homeless(place.root):
        return None
    try:
        check_root(place.root)
        check_folder(place.folder)
        return OwnFile(file, read_private(file, _MOST_BYTES))
    except (Unusable, OSError) as error:
        warn_once(place.root, f"tuned configurations are not used: {error}")
        return None


def write_own_file(target: str, write: Callable[[Path], None]) -> None:
    """Write the user's records, if they are kept; a failure is reported once."""
    place = _place()
    if place is None:
        return
    try:
        make_own_folder()
        write(place.folder / f"{target}.json")
    except (Unusable, TuneError, OSError) as error:
        warn_once(place.root, f"tuned configurations are not kept: {error}")


def make_own_folder() -> None:
    """Make the folder of the user's records; raise `Unusable` if others could change it."""
    place = _place()
    if place is not None:
        make_root(place.root)
        make_folder(place.folder)
        check_folder(place.folder)


def _place() -> _FilePlace | None:
    settings = current_settings()
    if settings.tuned == "off" or (not settings.tuned and settings.cache == "off"):
        return None
    if settings.tuned:
        return _FilePlace(Path(settings.tuned), Path(settings.tuned))
    store = disk_cache.store_of(settings)
    return None if store is None else _FilePlace(store.root, store.root / "tuned")
