"""Modules from Tile IR bytecode: the container and its sections, of any producer.

`decode` takes any bytes. Malformed bytecode is refused with a `MalformedBytecodeError` that names
the byte. A decoded module has the structure of Tile IR; the verifier checks the rules of its ops.
Time and memory are bounded by the length of the bytes.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from tilewright.bytecode.read.attributes import ReadTables, read_hints
from tilewright.bytecode.read.cursor import Cursor
from tilewright.bytecode.read.debug import DebugReader
from tilewright.bytecode.read.ops import BodyReader
from tilewright.bytecode.read.tables import ConstantReader, Items, StringReader
from tilewright.bytecode.read.types import TypeReader
from tilewright.bytecode.tags import (
    ALIGNMENT,
    GLOBAL_FLAGS,
    HAS_ALIGNMENT,
    MAGIC,
    PRODUCER_SINCE,
    FunctionFlag,
    Section,
)
from tilewright.deep_calls import with_room
from tilewright.ir.attributes import Visibility
from tilewright.ir.function import Function, Global, Module
from tilewright.ir.op import Value, Version
from tilewright.ir.types import TileType
from tilewright.ir.versions import VERSIONS

__all__ = ["Decoded", "decode"]

_MANDATORY = (Section.STRINGS, Section.FUNCTIONS)
_SPARE_PARAMS = 65_536  # parameters of all entries together, beyond one for two bytes


@dataclass(frozen=True)
class Decoded:
    """A module, and the bytecode version of its file."""

    module: Module
    version: Version

    @property
    def producer(self) -> str | None:
        """Program that wrote the file, if the file names it."""
        return self.module.producer


def decode(data: bytes) -> Decoded:
    """Read a module."""
    with _nothing_collected():
        return with_room(partial(_decode, bytes(data)))


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Pause the garbage collector: all objects built here survive, and scans double the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _decode(data: bytes) -> Decoded:
    cursor = Cursor(data, 0, len(data))
    version = _read_header(cursor)
    sections = _read_sections(cursor, version)
    for section in _MANDATORY:
        if section not in sections:
            cursor.fail(f"the section of {section.name.lower()} is missing")
    strings = StringReader(Items(sections[Section.STRINGS], "string"))
    tables = ReadTables(
        version,
        strings,
        TypeReader(Items(sections.get(Section.TYPES), "type"), version),
        ConstantReader(Items(sections.get(Section.CONSTANTS), "constant", code="Q")),
    )
    producer = sections.get(Section.PRODUCER)
    module = Module(
        functions=_read_functions(
            sections[Section.FUNCTIONS],
            tables,
            DebugReader(sections.get(Section.DEBUG), strings),
        ),
        globals=_read_globals(sections.get(Section.GLOBALS), tables),
        producer=None if producer is None else strings.text(producer.varint(), producer),
    )
    return Decoded(module, version)


def _read_header(cursor: Cursor) -> Version:
    start = cursor.take(len(MAGIC), "a header")
    if cursor.data[start : cursor.position] != MAGIC:
        cursor.fail("the file does not begin as Tile IR bytecode does", start)
    place = cursor.position
    version = cursor.byte(), cursor.byte()
    cursor.take(2, "the tag of a version")
    if version not in VERSIONS:
        known = ", ".join(".".join(map(str, known)) for known in VERSIONS)
        cursor.fail(f"version {version[0]}.{version[1]} is not known; there are {known}", place)
    return version


def _read_sections(cursor: Cursor, version: Version) -> dict[Section, Cursor]:
    """Return the window of each section; the last of several with one kind counts."""
    found: dict[Section, Cursor] = {}
    while True:
        start = cursor.position
        head = cursor.byte()
        if head == Section.END:
            break
        section = _section(head & ~HAS_ALIGNMENT, version)
        if section is None:
            cursor.fail(f"there is no section {head & ~HAS_ALIGNMENT}", start)
        length = cursor.varint()
        if head & HAS_ALIGNMENT:
            _skip_alignment(cursor, section)
        elif ALIGNMENT[section] > 1:
            cursor.fail(f"the section of {section.name.lower()} does not say its alignment", start)
        payload = cursor.take(length, f"a section of {section.name.lower()}")
        found[section] = Cursor(cursor.data, payload, cursor.position)
    if cursor.left:
        cursor.fail(f"{cursor.left} bytes stand behind the end")
    return found


def _section(number: int, version: Version) -> Section | None:
    known = number in ALIGNMENT and (number != Section.PRODUCER or version >= PRODUCER_SINCE)
    return Section(number) if known else None


def _skip_alignment(cursor: Cursor, section: Section) -> None:
    alignment = cursor.varint()
    if not alignment or alignment % ALIGNMENT[section] or alignment & alignment - 1:
        cursor.fail_number(f"a section cannot be aligned to {alignment}")
    cursor.align(alignment)


def _read_globals(cursor: Cursor | None, tables: ReadTables) -> tuple[Global, ...]:
    if cursor is None:
        return ()
    return tuple([_read_global(cursor, tables) for _ in range(cursor.count("globals", 4))])


def _read_global(cursor: Cursor, tables: ReadTables) -> Global:
    name = tables.strings.text(cursor.varint(), cursor)
    type_ = tables.types.type(cursor.varint(), cursor, (TileType,))
    assert isinstance(type_, TileType)
    value = tables.constants.value(cursor.varint(), type_, cursor)
    alignment = cursor.varint()
    if tables.version < GLOBAL_FLAGS:
        return Global(name, type_, value, alignment)
    visibility, constant = cursor.varint(), cursor.varint()
    if visibility > 1 or constant > 1:
        cursor.fail_number("a global's visibility and whether it is constant are 0 or 1")
    return Global(name, type_, value, alignment, Visibility(visibility), bool(constant))


def _read_functions(cursor: Cursor, tables: ReadTables, debug: DebugReader) -> tuple[Function, ...]:
    spare = _SPARE_PARAMS + len(cursor.data) // 2
    functions = []
    for _ in range(cursor.count("functions", 5)):
        function = _read_function(cursor, tables, debug, spare)
        spare -= len(function.params)
        functions.append(function)
    return tuple(functions)


def _read_function(
    cursor: Cursor, tables: ReadTables, debug: DebugReader, most_params: int
) -> Function:
    name = tables.strings.text(cursor.varint(), cursor)
    signature = tables.types.signature(cursor.varint(), cursor)
    if signature.results or len(signature.params) > most_params:
        reason = "gives values" if signature.results else "has too many parameters"
        cursor.fail_number(f"an entry {reason}")
    flags = cursor.byte()
    if flags & ~FunctionFlag.HINTS != FunctionFlag.ENTRY:
        cursor.fail(f"{name!r} is no public entry", cursor.position - 1)
    places = debug.list_of(cursor.varint(), cursor)
    hints = read_hints(cursor, tables) if flags & FunctionFlag.HINTS else None
    length = cursor.varint()
    start = cursor.take(length, "a body")
    window = Cursor(cursor.data, start, cursor.position)
    params = tuple([Value(type_) for type_ in signature.params])
    body = BodyReader(window, tables, places).read_body(params)
    return Function(name, body, hints, None if places is None else places.of_function())
