"""Modules to Tile IR bytecode: the container and its sections.

`encode` takes a verified module of Tile IR ops only; it checks no types. The tables are written
last, because writing ops fills them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from tilewright.bytecode.tags import (
    ALIGNMENT,
    GLOBAL_FLAGS,
    HAS_ALIGNMENT,
    MAGIC,
    PRODUCER_SINCE,
    FunctionFlag,
    Section,
)
from tilewright.bytecode.write.attributes import Tables, put_tagged
from tilewright.bytecode.write.debug import DebugWriter
from tilewright.bytecode.write.ops import BodyWriter
from tilewright.bytecode.write.stream import ByteStream
from tilewright.deep_calls import with_room
from tilewright.ir.function import Function, Module
from tilewright.ir.op import Op, Version
from tilewright.ir.versions import check_version, required_version
from tilewright.source import Location
from tilewright.version import VERSION

__all__ = ["Encoded", "encode", "encode_in_oldest"]


@dataclass(frozen=True)
class Encoded:
    """A module in bytes, with a map from byte offsets to ops."""

    data: bytes
    version: Version
    places: tuple[tuple[int, Op], ...]  # offset of each op, ascending
    bodies: Mapping[str, int]  # offset of each function's body

    def op_at(self, offset: int) -> Op | None:
        """Return the op whose bytes include the offset, or None outside every function."""
        found = bisect_right(self.places, offset, key=lambda place: place[0])
        return self.places[found - 1][1] if found else None


def encode(module: Module, version: Version = (13, 3), *, locations: bool = True) -> Encoded:
    """Write a module. Without `locations` the bytes do not depend on the path of the source.

    The producer named in the file is the module's own; a module built here names tilewright.
    """
    check_version(module, version)
    return with_room(partial(_written, module, version, locations))


def encode_in_oldest(module: Module, *, locations: bool = True) -> Encoded:
    """Write a module in the oldest version in use that holds it."""
    return with_room(partial(_written, module, required_version(module), locations))


def _written(module: Module, version: Version, locations: bool) -> Encoded:
    tables = Tables.empty(version)
    debug = DebugWriter(tables.strings)
    functions, starts, bodies = _write_functions(module, tables, debug if locations else None)

    globals_ = _write_globals(module, tables)

    stream = ByteStream(MAGIC)
    stream += bytes((*version, 0, 0))
    base = _put_section(stream, Section.FUNCTIONS, functions)
    if module.globals:
        _put_section(stream, Section.GLOBALS, globals_)
    if len(tables.constants):
        _put_section(stream, Section.CONSTANTS, tables.constants.section())
    if _has_locations(module) and locations:
        _put_section(stream, Section.DEBUG, debug.section())
    _put_section(stream, Section.TYPES, tables.types.section())
    if version >= PRODUCER_SINCE:
        producer = ByteStream()
        name = f"tilewright {VERSION}" if module.producer is None else module.producer
        producer.put_varint(tables.strings.text(name))
        _put_section(stream, Section.PRODUCER, bytes(producer))
    _put_section(stream, Section.STRINGS, tables.strings.section())
    stream.append(Section.END)
    return Encoded(
        data=bytes(stream),
        version=version,
        places=tuple((base + start, op) for start, op in starts),
        bodies={name: base + start for name, start in bodies.items()},
    )


def _put_section(stream: ByteStream, section: Section, payload: bytes) -> int:
    """Append a section; return the offset of its payload."""
    alignment = ALIGNMENT[section]
    stream.append(section | (HAS_ALIGNMENT if alignment > 1 else 0))
    stream.put_varint(len(payload))
    if alignment > 1:
        stream.put_varint(alignment)
        stream.pad_to(alignment)
    start = len(stream)
    stream += payload
    return start


def _write_functions(
    module: Module, tables: Tables, debug: DebugWriter | None
) -> tuple[bytes, list[tuple[int, Op]], dict[str, int]]:
    """Return the function section, and the offsets in it of each op and each body."""
    stream = ByteStream()
    bodies: dict[str, int] = {}
    starts: list[tuple[int, Op]] = []
    stream.put_varint(len(module.functions))
    for function in module.functions:
        body = BodyWriter(tables)
        body.write_body(function.body)
        _put_header(stream, function, tables)
        locations = [op.loc for _, op in body.places]
        stream.put_varint(_debug_list(function, locations, debug))
        if function.hints is not None:
            put_tagged(stream, function.hints, tables)
        stream.put_varint(len(body.stream))
        bodies[function.name] = len(stream)
        starts += [(len(stream) + start, op) for start, op in body.places]
        stream += body.stream
    return bytes(stream), starts, bodies


def _put_header(stream: ByteStream, function: Function, tables: Tables) -> None:
    hinted = 0 if function.hints is None else FunctionFlag.HINTS
    stream.put_varint(tables.strings.text(function.name))
    stream.put_varint(tables.types.type(function.type))
    stream.append(FunctionFlag.ENTRY | hinted)


def _write_globals(module: Module, tables: Tables) -> bytes:
    """Return the global section."""
    stream = ByteStream()
    stream.put_varint(len(module.globals))
    for held in module.globals:
        stream.put_varint(tables.strings.text(held.name))
        stream.put_varint(tables.types.type(held.type))
        stream.put_varint(tables.constant(held.value, held.type))
        stream.put_varint(held.alignment)
        if tables.version >= GLOBAL_FLAGS:
            stream.put_varint(held.visibility.value)
            stream.put_varint(held.constant)
    return bytes(stream)


def _debug_list(
    function: Function, locations: list[Location | None], debug: DebugWriter | None
) -> int:
    if debug is None or not _located(function):
        return 0
    return debug.add_function(function, locations)


def _has_locations(module: Module) -> bool:
    return any(_located(function) for function in module.functions)


def _located(function: Function) -> bool:
    return function.loc is not None or any(op.loc is not None for op in function.walk())
