"""Compiled kernels on disk, found in two steps.

The *source key* stands for the text of a kernel, its specialisation and the tools: under it lie the
places outside the kernel that mattered when it was compiled. With what is at those places now it
leads to an entry, and the front end need not run. An entry names the *content key* of its cubin,
which stands for the bytecode, the target and the tools: when only the text has moved, tileiras need
not run. The code in the folder is run, so only files of this user's are read (`private_files`). All
else is plain data: a forged entry is a miss, or another kernel than the one that was meant.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from platformdirs import user_cache_path

from tilewright.frontend.signature.specialization import NamedConstant, describe
from tilewright.frontend.source.captures import CapturePlace, Captures, PlaceKind
from tilewright.jit.cache.entries import read_facts, write_facts
from tilewright.jit.cache.fingerprints import (
    Unknown,
    digest,
    fingerprint,
    package_fingerprint,
    package_signature,
)
from tilewright.jit.cache.plain_data import Schema
from tilewright.jit.cache.plain_forms import Unreadable, Unwritable
from tilewright.jit.cache.private_files import Unusable, warn_once
from tilewright.jit.cache.process_lock import Taken
from tilewright.jit.cache.store import FileStore
from tilewright.jit.compile.compiled import LaunchFacts, Request
from tilewright.jit.loader import Assembler
from tilewright.settings import Settings, current_settings

__all__ = ["DiskCache", "Found", "Kept", "kept_kernels", "open_cache", "store_of"]

_ENTRY = b"kernel"  # the first line of an entry; the second is its label, the rest its facts
_MOST_SHOWN = 2000  # characters of a label


@dataclass(frozen=True, eq=False)
class Found:
    """A kernel that was compiled before."""

    facts: LaunchFacts
    captures: Captures
    cubin: bytes
    cubin_key: str


@dataclass(frozen=True)
class Kept:
    """A kernel in the folder, as it is shown to people."""

    kernel: str
    made_for: str
    nbytes: int  # of its code
    last_used: float


@dataclass(frozen=True)
class _Label:
    """What an entry says of itself."""

    kernel: str
    made_for: str
    cubin: str  # the key of its code


@dataclass(frozen=True)
class _Places:
    """The places that a kernel was found to depend on."""

    places: tuple[tuple[int | None, PlaceKind, str], ...]  # as those of `Captures`


_SCHEMA = Schema((_Label, _Places))


class DiskCache:
    """The kernels in one folder, for one release of the tools."""

    def __init__(self, store: FileStore, tools: str) -> None:
        self._store = store
        self._tools = tools

    def find(self, request: Request) -> Found | None:
        """A kernel that was compiled from this text, with what it finds outside itself now."""
        source_key = self._source_key(request)
        places = self._places(source_key)
        if places is None:
            return None
        kernel = request.source.plain()
        named = {
            name: value.value
            for name, value in request.specialization.constants
            if isinstance(value, NamedConstant)
        }
        captures = Captures.look_up(kernel, places, named)
        if captures is None:
            return None
        try:
            entry = self._store.get(_entry_key(source_key, captures))
        except Unknown:
            return None
        return None if entry is None else self._read(entry, request, captures)

    def keep(
        self, request: Request, facts: LaunchFacts, captures: Captures, cubin_key: str
    ) -> None:
        """Remember what a kernel became; one that cannot be told from others is left out."""
        kernel = request.source.plain()
        places = captures.places(kernel)
        if places is None:
            return
        try:
            source_key = self._source_key(request)
            entry_key = _entry_key(source_key, captures)
        except Unknown:
            return
        try:
            body = write_facts(facts, (kernel, *captures.helpers()), request)
            label = _SCHEMA.write(_label(request, cubin_key))
            written = _SCHEMA.write(_Places(places))
        except Unwritable:
            return
        self._store.put(_places_key(source_key), written)
        self._store.put(entry_key, b"\n".join((_ENTRY, label, body)))

    def cubin_key(self, bytecode: bytes, target: str, opt_level: int | None) -> str:
        """The key of the code that the tools make of this bytecode."""
        return digest("cubin", self._tools, target, str(opt_level), bytecode)

    def cubin(self, key: str) -> bytes | None:
        """Code that was assembled before."""
        return self._store.get(key)

    def keep_cubin(self, key: str, cubin: bytes) -> None:
        """Remember assembled code."""
        self._store.put(key, cubin)

    def forget(self, key: str) -> None:
        """Remove code that a driver did not take."""
        self._store.remove(key)

    @contextlib.contextmanager
    def making(self, key: str) -> Iterator[None]:
        """Inside, no other process makes the contents of this key; waiting for it has a limit."""
        try:
            lock = self._store.lock(key, current_settings().tileiras_timeout)
        except (Unusable, OSError):
            yield
            return
        try:
            # Work done twice is better than work not done.
            with contextlib.suppress(Taken, Unusable, OSError):
                lock.acquire()
            yield
        finally:
            lock.release()

    def _source_key(self, request: Request) -> str:
        return digest(
            "source",
            _package(self._store),
            self._tools,
            fingerprint(request.source.function.__code__),
            repr(request.signature),
            repr(request.specialization),
            repr(request.options),
            request.placement.name,
        )

    def _places(self, source_key: str) -> tuple[CapturePlace, ...] | None:
        data = self._store.get(_places_key(source_key))
        try:
            found = None if data is None else _SCHEMA.read(data, _Places)
        except Unreadable:
            return None
        return None if found is None else tuple(CapturePlace(*place) for place in found.places)

    def _read(self, entry: bytes, request: Request, captures: Captures) -> Found | None:
        label = _label_of(entry)
        cubin = None if label is None else self._store.get(label.cubin)
        if label is None or cubin is None:
            return None
        try:
            body = entry.split(b"\n", 2)[2]
            facts = read_facts(body, (request.source.plain(), *captures.helpers()), request)
        except Unreadable:
            return None
        return Found(facts, captures, cubin, label.cubin)


def kept_kernels(store: FileStore) -> Iterator[Kept]:
    """The kernels in the folder, for people."""
    sizes = {file.key: file.nbytes for file in store.files()}
    for file in store.files():
        label = _label_of(store.peek(file))
        if label is not None:
            nbytes = sizes.get(label.cubin, 0)
            yield Kept(label.kernel, label.made_for, nbytes, file.last_used)


def _label(request: Request, cubin_key: str) -> _Label:
    made_for = describe(request.signature, request.specialization)
    return _Label(request.signature.kernel, made_for, cubin_key)


def _label_of(contents: bytes) -> _Label | None:
    """What an entry says of itself; None if it is none, or says what no screen should show."""
    lines = contents.split(b"\n", 2)
    if len(lines) != 3 or lines[0] != _ENTRY:
        return None
    try:
        label = _SCHEMA.read(lines[1], _Label)
    except Unreadable:
        return None
    shown = label.kernel + label.made_for
    return label if shown.isprintable() and len(shown) <= _MOST_SHOWN else None


def _places_key(source_key: str) -> str:
    return digest("places", source_key)


def _entry_key(source_key: str, captures: Captures) -> str:
    return digest("entry", source_key, *map(fingerprint, captures.values()))


@cache
def _package(store: FileStore) -> str:
    """Which compiler this is. Reading all of our files takes long, so the answer is kept."""
    return _remembered(store, digest("package", package_signature()), package_fingerprint)


def _tools(store: FileStore, assembler: Assembler) -> str:
    """The release of the tools. Asking them takes long, so the answer is kept."""
    return _remembered(store, digest("tools", assembler.tools_signature()), assembler.tools_version)


def _remembered(store: FileStore, key: str, ask: Callable[[], str]) -> str:
    known = store.get(key)
    if known is None:
        known = ask().encode()
        store.put(key, known)
    return known.decode(errors="replace")


def store_of(settings: Settings) -> FileStore | None:
    """The folder that the settings name; None if kernels are not to be kept."""
    if settings.cache == "off":
        return None
    return FileStore(
        Path(settings.cache) if settings.cache else _folder_at_home(), settings.cache_limit
    )


def _folder_at_home() -> Path:
    """The folder of ours in the user's cache; one that begins with `~` for a user without home."""
    try:
        found = user_cache_path("tilewright")
    except RuntimeError:
        found = Path()
    return found if found.is_absolute() else Path("~/.cache/tilewright")


@cache
def open_cache(assembler: Assembler) -> DiskCache | None:
    """The cache of this process, or None if there is none; says why once."""
    store = store_of(current_settings())
    if store is None:
        return None
    try:
        store.prepare()
    except Unusable as error:
        warn_once(store.root, f"compiled kernels are not kept: {error}")
        return None
    return DiskCache(store, _tools(store, assembler))
