"""Compiled kernels on disk, found in two steps.

The *source key* is a digest of a kernel's source, its specialisation and the tools; it gives the
captures of the compilation, the names outside the kernel that it read. The source key with the
current values of the captures gives a cache entry, and a hit there skips the front end. An entry
names the *content key* of its cubin, a digest of the bytecode, the target and the tools; a hit
there skips tileiras, for example when only lines have moved. Cubins are executed, so only files
that this user owns are read (`private_files`). All else is plain data: a forged entry is a miss, or
loads another kernel.

An entry has the `LaunchFacts` of a kernel, the part that launches need. A source location is
written by the number of its function, the kernel or a helper, so that it points into the reader's
files. Bytes from a file are not trusted: they decode to facts about this specialisation, made of
the classes listed here, or raise `Unreadable`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

from platformdirs import user_cache_path

from tilewright.analysis import formulas, intervals, operations, padding_facts, terms
from tilewright.analysis.pressure import Pressure
from tilewright.check import launch
from tilewright.check.padded_reduction import PaddedReduction
from tilewright.files.private_files import Unusable, warn_once
from tilewright.files.process_lock import Taken
from tilewright.frontend.signature.specialization import (
    NamedConstant,
    arguments_of,
    describe,
    offsets_name,
    record_argument,
)
from tilewright.frontend.source.capture import source_file
from tilewright.frontend.source.captures import CapturePlace, Captures, PlaceKind
from tilewright.ir import check_sites, launch_terms, types
from tilewright.ir.arguments import Argument
from tilewright.ir.function import EntryHints
from tilewright.jit.cache.fingerprints import (
    Unknown,
    digest,
    fingerprint,
    package_fingerprint,
    package_signature,
)
from tilewright.jit.cache.plain_data import Schema, TextContext, Unreadable, Unwritable
from tilewright.jit.cache.store import FileStore
from tilewright.jit.compile.compiled import CompiledKernel, LaunchFacts, Request
from tilewright.jit.loader import cuda_program
from tilewright.settings import Settings, current_settings
from tilewright.source import Location, SourceFile, Span

__all__ = [
    "CLASSES",
    "DiskCache",
    "Found",
    "Kept",
    "kept_kernels",
    "open_cache",
    "read_facts",
    "store_of",
    "write_facts",
]


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


# --- the facts of an entry ------------------------------------------------------------------------


_MOST_BITS = 64  # of an integer of the machine

# The classes of facts and of their parts.
CLASSES: tuple[type, ...] = (
    LaunchFacts,
    Argument, types.TileType, types.PtrType,
    launch_terms.BaseAddress, launch_terms.Blocks, launch_terms.Extent,
    launch_terms.RecordAddress, launch_terms.GridExtent, launch_terms.PointerArgument,
    launch_terms.ScalarArgument, launch_terms.Stride, launch_terms.TileCount,
    launch.AxisNotEmpty, launch.BlockCondition, launch.DivisorNotZero, launch.IndexInRange,
    launch.Precondition, launch.StepAboveZero,
    formulas.AllOf, formulas.AnyOf, formulas.AtLeastZero, formulas.Opaque,
    intervals.Interval, intervals.MachineType,
    terms.Known, terms.Linear, terms.Variable,
    operations.Greatest, operations.Wrapped, operations.Least, operations.NonZero,
    operations.Product, operations.Quotient, operations.Remainder,
    check_sites.AssertSite, check_sites.CheckSite, check_sites.DivisorSite,
    PaddedReduction, padding_facts.ReachBound, EntryHints, Pressure,
    Location, Span,
)  # fmt: skip

_NAMES = {
    "Site": check_sites.Site,
    "LaunchCheck": launch.LaunchCheck,
    "SourceFile": SourceFile,
}


def write_facts(facts: LaunchFacts, functions: tuple[FunctionType, ...], request: Request) -> bytes:
    """Encode facts; `functions` are the kernel and its helpers. Raises `Unwritable`."""
    return _facts_schema().write(facts, _Launch(functions, request))


def read_facts(data: bytes, functions: tuple[FunctionType, ...], request: Request) -> LaunchFacts:
    """Decode facts; raises `Unreadable`, and nothing else, for invalid bytes."""
    facts = _facts_schema().read(data, LaunchFacts, _Launch(functions, request))
    if not facts.entries or facts.name != request.signature.kernel:
        raise Unreadable("these are facts about another kernel")
    return facts


@cache
def _facts_schema() -> Schema:
    united = (terms.Atom, terms.Linear)
    return Schema(CLASSES, outside=SourceFile, names=_NAMES, united=united)


class _Launch(TextContext):
    """The kernel's source files, by the number of a function in them, and rules for its terms."""

    def __init__(self, functions: tuple[FunctionType, ...], request: Request) -> None:
        self._functions = functions
        self._files: dict[int, SourceFile] = {}
        self._numbers = {function.__code__.co_filename: n for n, function in enumerate(functions)}
        self.rules = _rules(request)

    def number(self, value: SourceFile) -> int:
        """The number of a function in this file."""
        if value.path not in self._numbers:
            raise Unwritable(f"no function of the kernel stands in {value.path}")
        return self._numbers[value.path]

    def object(self, number: int) -> SourceFile:
        """The file of a function in this process."""
        if not 0 <= number < len(self._functions):
            raise Unreadable(f"there is no function {number}")
        if number not in self._files:
            self._files[number] = source_file(self._functions[number])
        return self._files[number]


def _rules(request: Request) -> dict[type, Callable[[Any], bool]]:
    """Validation of decoded facts: every term must exist in launches of this specialisation."""
    signature, specialization = request.signature, request.specialization
    arguments = frozenset((*arguments_of(signature, specialization), record_argument()))
    ranks = {param.name: param.rank for param in signature.tensors}
    for param, spec in zip(signature.tensors, specialization.tensors, strict=True):
        if spec.segments is not None:
            ranks[offsets_name(param.name)] = 1
    passed = {argument.term for argument in arguments}
    addressed = ranks.keys() | {param.name for param in signature.pointers}
    dtypes = zip(signature.scalars, specialization.scalars, strict=True)
    scalars = {param.name: dtype.element for param, dtype in dtypes}

    def has_address(term: launch_terms.BaseAddress | launch_terms.PointerArgument) -> bool:
        return term.param in addressed

    def has_axis(term: launch_terms.Extent | launch_terms.Stride | launch_terms.TileCount) -> bool:
        return 0 <= term.axis < ranks.get(term.param, 0)

    def is_whole(known: terms.Known) -> bool:
        """Whether a launch check may use the term: an integer, known before memory is allocated."""
        if isinstance(known.term, launch_terms.ScalarArgument):
            return bool(scalars[known.term.param].is_integer)
        return isinstance(known.term, _COUNTS)

    return {
        launch_terms.BaseAddress: has_address,
        launch_terms.PointerArgument: has_address,
        launch_terms.Extent: has_axis,
        launch_terms.Stride: has_axis,
        launch_terms.TileCount: lambda count: count.tile > 0 and has_axis(count),
        launch_terms.ScalarArgument: lambda scalar: scalar.param in scalars,
        launch_terms.GridExtent: lambda extent: extent in passed,
        intervals.MachineType: lambda held: 0 < held.bits <= _MOST_BITS,
        terms.Known: is_whole,
        operations.Greatest: lambda greatest: len(greatest.choices) > 0,
        operations.Least: lambda least: len(least.choices) > 0,
        operations.Product: lambda product: len(product.factors) in (1, 2),
        PaddedReduction: lambda noted: noted.location is not None,
        Argument: lambda argument: argument in arguments,
    }


_COUNTS = (
    launch_terms.Blocks,
    launch_terms.Extent,
    launch_terms.GridExtent,
    launch_terms.Stride,
    launch_terms.TileCount,
)
