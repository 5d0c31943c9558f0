"""Compiled kernels on disk, found in two steps.

The *source key* is a digest of a kernel's source, its specialisation and the tools; it gives the
captures of the compilation, the names outside the kernel that it read. The source key with the
current values of the captures gives a cache entry, and a hit there skips the front end. An entry
names the *content key* of its cubin, a digest of the bytecode, the target and the tools; a hit
there skips tileiras, for example when only lines have moved. Cubins are executed, so only files
that this user owns are read (`private_files`). All else is plain data: a forged entry is a miss, or
loads another kernel.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from platformdirs import user_cache_path

from tilewright.files.private_files import Unusable, warn_once
from tilewright.files.process_lock import Taken
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
from tilewright.jit.cache.plain_data import Schema, Unreadable, Unwritable
from tilewright.jit.cache.store import FileStore
from tilewright.jit.compile.compiled import CompiledKernel, LaunchFacts, Request
from tilewright.jit.loader import cuda_program
from tilewright.settings import Settings, current_settings

__all__ = ["DiskCache", "Found", "Kept", "kept_kernels", "open_cache", "store_of"]

_ENTRY = b"kernel"  # first line of an entry; the second line is its label, the rest its facts
_MOST_SHOWN = 2000  # characters of a label


@dataclass(frozen=True, eq=False)
class Found:
    """A hit: the facts and the cubin of a kernel."""

    facts: LaunchFacts
    captures: Captures
    cubin: bytes
    cubin_key: str


@dataclass(frozen=True)
class Kept:
    """A cache entry as the command line shows it."""

    kernel: str
    made_for: str
    nbytes: int  # of its cubin
    last_used: float


@dataclass(frozen=True)
class _Label:
    """The label of an entry: kernel, target and cubin."""

    kernel: str
    made_for: str
    cubin: str  # content key


@dataclass(frozen=True)
class _Places:
    """The captures of a kernel, without their values."""

    places: tuple[tuple[int | None, PlaceKind, str], ...]  # as in `Captures`


_SCHEMA = Schema((_Label, _Places))


class DiskCache:
    """The cache entries of one folder, for one release of the package and of the tools."""

    def __init__(self, store: FileStore, package: str, tools: str) -> None:
        self.store = store
        self._package = package
        self._tools = tools

    def find(self, request: Request) -> Found | None:
        """The entry of a kernel with this source and the current values of its captures."""
        source_key = self._source_key(request)
        kernel = request.source.plain()
        constants = request.specialization.constants
        named = {name: one.value for name, one in constants if isinstance(one, NamedConstant)}
        try:
            kept = _SCHEMA.read(self.store.get(_places_key(source_key)) or b"", _Places)
            places = tuple(CapturePlace(*place) for place in kept.places)
            captures = Captures.look_up(kernel, places, named)
            if captures is None:
                return None
            entry = self.store.get(_entry_key(source_key, captures)) or b""
            label = _label_of(entry)
            cubin = None if label is None else self.store.get(label.cubin)
            if label is None or cubin is None:
                return None
            body = entry.split(b"\n", 2)[2]
            facts = read_facts(body, (kernel, *captures.helpers()), request)
        except (Unknown, Unreadable):
            return None
        return Found(facts, captures, cubin, label.cubin)

    def keep(self, request: Request, compiled: CompiledKernel, cubin_key: str) -> None:
        """Write an entry; a kernel whose captures have no fingerprint is not cached."""
        kernel, captures = request.source.plain(), compiled.captures
        places = captures.places(kernel)
        if places is None:
            return
        made_for = describe(request.signature, request.specialization)
        try:
            source_key = self._source_key(request)
            entry_key = _entry_key(source_key, captures)
            body = write_facts(compiled.facts, (kernel, *captures.helpers()), request)
            label = _SCHEMA.write(_Label(request.signature.kernel, made_for, cubin_key))
            written = _SCHEMA.write(_Places(places))
        except (Unknown, Unwritable):
            return
        self.store.put(_places_key(source_key), written)
        self.store.put(entry_key, b"\n".join((_ENTRY, label, body)))

    def cubin_key(self, compiled: CompiledKernel) -> str:
        """The content key of a kernel's cubin."""
        made_for = compiled.specialization
        level = str(made_for.hints.opt_level)
        return digest("cubin", self._tools, made_for.target, level, compiled.content)

    @contextlib.contextmanager
    def making(self, key: str) -> Iterator[None]:
        """Hold the lock of a content key between processes; after a timeout, go on without it."""
        with contextlib.ExitStack() as held:
            # Without the lock two processes may assemble the same cubin, which is harmless.
            with contextlib.suppress(Taken, Unusable, OSError):
                held.enter_context(self.store.lock(key, current_settings().tileiras_timeout))
            yield

    def _source_key(self, request: Request) -> str:
        return digest(
            "source",
            self._package,
            self._tools,
            fingerprint(request.source.function.__code__),
            repr(request.signature),
            repr(request.specialization),
            repr(request.options),
            request.placement.name,
        )


def kept_kernels(store: FileStore) -> Iterator[Kept]:
    """All entries of a folder, for the command line."""
    sizes = {file.key: file.nbytes for file in store.files()}
    for file in store.files():
        label = _label_of(store.peek(file.key) or b"")
        if label is not None:
            nbytes = sizes.get(label.cubin, 0)
            yield Kept(label.kernel, label.made_for, nbytes, file.last_used)


def _label_of(contents: bytes) -> _Label | None:
    """The label of an entry; None for an invalid one, or one with unprintable characters."""
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


def _remembered(store: FileStore, key: str, ask: Callable[[], str]) -> str:
    """The answer to a slow question, kept under the key of its short form."""
    known = store.get(key)
    if known is None:
        known = ask().encode()
        store.put(key, known)
    return known.decode(errors="replace")


def store_of(settings: Settings) -> FileStore | None:
    """The folder of the settings; None if the disk cache is off."""
    if settings.cache == "off":
        return None
    return FileStore(
        Path(settings.cache) if settings.cache else _folder_at_home(), settings.cache_limit
    )


def _folder_at_home() -> Path:
    """The default folder below the user's cache; begins with `~` for a user without a home."""
    try:
        found = user_cache_path("tilewright")
    except RuntimeError:
        found = Path()
    return found if found.is_absolute() else Path("~/.cache/tilewright")


@cache
def open_cache() -> DiskCache | None:
    """The disk cache of this process; None if it is off or unusable, which is reported once."""
    store = store_of(current_settings())
    if store is None:
        return None
    try:
        store.prepare()
    except Unusable as error:
        warn_once(store.root, f"compiled kernels are not kept: {error}")
        return None
    # One reads every file of the package, the other runs the tools.
    package_key = digest("package", package_signature())
    tools_key = digest("tools", cuda_program.tools_signature())
    package = _remembered(store, package_key, package_fingerprint)
    return DiskCache(store, package, _remembered(store, tools_key, cuda_program.tools_version))
