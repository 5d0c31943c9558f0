"""Compiled kernels on disk, found in two steps.

The *source key* stands for the text of a kernel, its specialisation and the tools: under it lie the
places outside the kernel that mattered when it was compiled. With what is at those places now it
leads to an entry, and the front end need not run. An entry names the *content key* of its cubin,
which stands for the bytecode, the target and the tools: when only the text has moved, tileiras need
not run. Assumes that whoever can write the folder is trusted.
"""

from __future__ import annotations

import contextlib
import json
import logging
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FunctionType

from platformdirs import user_cache_path

from tilewright.frontend.captures import Captures, Place, PlaceKind
from tilewright.frontend.specialization import describe
from tilewright.jit.compiled import LaunchFacts, Request
from tilewright.jit.entries import read_facts, write_facts
from tilewright.jit.fingerprints import (
    Unknown,
    digest,
    fingerprint,
    package_fingerprint,
    package_signature,
)
from tilewright.jit.loader import Assembler
from tilewright.jit.process_lock import Taken
from tilewright.jit.store import FileStore, Unusable
from tilewright.settings import Settings, current_settings

__all__ = ["DiskCache", "Found", "Kept", "kept_kernels", "open_cache", "store_of"]

_log = logging.getLogger("tilewright")
_ENTRY = b"kernel"  # what an entry begins with


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
        captures = Captures.look_up(kernel, places)
        if captures is None:
            return None
        try:
            entry = self._store.get(_entry_key(source_key, captures))
        except Unknown:
            return None
        return None if entry is None else self._read(entry, kernel, captures)

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
        body = write_facts(facts, (kernel, *captures.helpers()))
        self._store.put(_places_key(source_key), _written(places))
        label = _label(request, cubin_key)
        self._store.put(entry_key, b"\n".join((_ENTRY, json.dumps(label).encode(), body)))

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
        """Inside, no other process makes what this key stands for; nobody waits for ever."""
        try:
            lock = self._store.lock(key, current_settings().tileiras_timeout)
            lock.acquire()
        except (Taken, OSError):
            yield  # work done twice is better than work not done
            return
        try:
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

    def _places(self, source_key: str) -> tuple[Place, ...] | None:
        data = self._store.get(_places_key(source_key))
        if data is None:
            return None
        return tuple(Place(owner, PlaceKind(kind), name) for owner, kind, name in json.loads(data))

    def _read(self, entry: bytes, kernel: FunctionType, captures: Captures) -> Found | None:
        _, label, body = entry.split(b"\n", 2)
        key = json.loads(label)["cubin"]
        cubin = self._store.get(key)
        if cubin is None:
            return None
        try:
            facts = read_facts(body, (kernel, *captures.helpers()))
        except (pickle.UnpicklingError, AttributeError, EOFError):
            return None
        return Found(facts, captures, cubin, key)


def kept_kernels(store: FileStore) -> Iterator[Kept]:
    """What the folder has, for people."""
    for file in store.files():
        contents = store.peek(file)
        if contents.startswith(_ENTRY + b"\n"):
            label = json.loads(contents.split(b"\n", 2)[1])
            cubin = store.path(label["cubin"])
            nbytes = cubin.stat().st_size if cubin.exists() else 0
            yield Kept(label["kernel"], label["made for"], nbytes, file.last_used)


def _label(request: Request, cubin_key: str) -> dict[str, str]:
    made_for = describe(request.signature, request.specialization)
    return {"kernel": request.signature.kernel, "made for": made_for, "cubin": cubin_key}


def _places_key(source_key: str) -> str:
    return digest("places", source_key)


def _entry_key(source_key: str, captures: Captures) -> str:
    return digest("entry", source_key, *map(fingerprint, captures.values()))


def _written(places: tuple[Place, ...]) -> bytes:
    return json.dumps([(place.owner, place.kind.value, place.name) for place in places]).encode()


@cache
def _package(store: FileStore) -> str:
    """Which compiler this is. Reading all of our files takes long, so the answer is kept."""
    key = digest("package", package_signature())
    known = store.get(key)
    if known is None:
        known = package_fingerprint().encode()
        store.put(key, known)
    return known.decode()


def store_of(settings: Settings) -> FileStore | None:
    """The folder that the settings name; None if kernels are not to be kept."""
    if settings.cache == "off":
        return None
    root = Path(settings.cache) if settings.cache else user_cache_path("tilewright")
    return FileStore(root, settings.cache_limit)


@cache
def open_cache(assembler: Assembler) -> DiskCache | None:
    """The cache of this process, or None if there is none; says why once."""
    store = store_of(current_settings())
    if store is None:
        return None
    try:
        store.prepare()
    except Unusable as error:
        _log.warning("tilewright: compiled kernels are not kept: %s", error)
        return None
    return DiskCache(store, _tools(store, assembler))


def _tools(store: FileStore, assembler: Assembler) -> str:
    """The release of the tools. Asking them takes long, so the answer is kept."""
    key = digest("tools", assembler.tools_signature())
    known = store.get(key)
    if known is None:
        known = assembler.tools_version().encode()
        store.put(key, known)
    return known.decode()
