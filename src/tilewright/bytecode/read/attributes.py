"""Readers of attributes: one for each codec class, and one for each self-describing form.

The mirror of `write.attributes`: attributes of an op are read bare, attributes in arrays,
dictionaries and promises by their tag. The depth of nesting is limited far above any real file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.bytecode.read.cursor import Cursor
from tilewright.bytecode.read.tables import ConstantReader, StringReader
from tilewright.bytecode.read.types import TypeReader
from tilewright.bytecode.tags import AttributeTag
from tilewright.dtypes import Element
from tilewright.ir import codecs
from tilewright.ir.attributes import (
    Attribute,
    Bounded,
    DenseElements,
    Dictionary,
    DivBy,
    FloatIdentity,
    IntIdentity,
    Promise,
    SameElements,
    TargetHints,
)
from tilewright.ir.elements import numbers_of_bits
from tilewright.ir.op import Version
from tilewright.ir.types import TileType, Type

__all__ = ["AttributeReader", "ReadTables", "attribute_reader", "read_hints"]

_DEEPEST = 16


@dataclass(frozen=True)
class ReadTables:
    """Tables that ops refer to by index."""

    version: Version
    strings: StringReader
    types: TypeReader
    constants: ConstantReader


# Reads one attribute of an op with the given result types.
AttributeReader = Callable[[Cursor, ReadTables, tuple[Type, ...]], Any]


def attribute_reader(codec: codecs.AttributeCodec) -> AttributeReader:
    """Return the reader of one attribute of an op."""
    return _READERS[type(codec)](codec)


def read_hints(cursor: Cursor, tables: ReadTables) -> TargetHints:
    """Read the hints of an entry, which carry their tag."""
    start = cursor.position
    hints = _tagged(cursor, tables, 0)
    if not isinstance(hints, TargetHints):
        cursor.fail("an entry's hints are of another kind of attribute", start)
    return hints


def _enum(codec: codecs.EnumCodec) -> AttributeReader:
    members = {member.value: member for member in codec.enum}

    def read(cursor: Cursor, _tables: ReadTables, _types: tuple[Type, ...]) -> Any:
        number = cursor.varint()
        if number not in members:
            cursor.fail_number(f"there is no {codec.enum.__name__} {number}")
        return members[number]

    return read


def _plain(reader: AttributeReader) -> Callable[[codecs.AttributeCodec], AttributeReader]:
    """Return a factory of a reader that does not depend on the codec."""
    return lambda _codec: reader


def _integer(cursor: Cursor, _tables: ReadTables, _types: tuple[Type, ...]) -> int:
    return cursor.varint()


def _bool(cursor: Cursor, _tables: ReadTables, _types: tuple[Type, ...]) -> bool:
    return _truth(cursor)


def _string(cursor: Cursor, tables: ReadTables, _types: tuple[Type, ...]) -> str:
    return tables.strings.text(cursor.varint(), cursor)


def _int32_array(cursor: Cursor, _tables: ReadTables, _types: tuple[Type, ...]) -> tuple[int, ...]:
    return cursor.array("i", "integers")


def _bool_array(cursor: Cursor, _tables: ReadTables, _types: tuple[Type, ...]) -> tuple[bool, ...]:
    """Read truth values; a tuple of false ones becomes empty, as the declaration has it."""
    truths = tuple(map(bool, cursor.array("b", "truth values")))
    return truths if any(truths) else ()


def _constant(cursor: Cursor, tables: ReadTables, types: tuple[Type, ...]) -> Any:
    return tables.constants.value(cursor.varint(), types[0] if types else None, cursor)


def _array(cursor: Cursor, tables: ReadTables, _types: tuple[Type, ...]) -> tuple[Attribute, ...]:
    return _items(cursor, tables, 0)


def _promise(cursor: Cursor, tables: ReadTables, _types: tuple[Type, ...]) -> Promise:
    start = cursor.position
    promise = _tagged(cursor, tables, 0)
    if not isinstance(promise, Promise):
        cursor.fail("this kind of attribute promises nothing", start)
    return promise


def _hints(cursor: Cursor, tables: ReadTables, _types: tuple[Type, ...]) -> TargetHints:
    return _read_hints(cursor, tables, 0)


_READERS: dict[type[codecs.AttributeCodec], Callable[[Any], AttributeReader]] = {
    codecs.EnumCodec: _enum,
    codecs.IntCodec: _plain(_integer),
    codecs.BoolCodec: _plain(_bool),
    codecs.StringCodec: _plain(_string),
    codecs.SymbolCodec: _plain(_string),
    codecs.Int32ArrayCodec: _plain(_int32_array),
    codecs.BoolArrayCodec: _plain(_bool_array),
    codecs.ConstantCodec: _plain(_constant),
    codecs.ArrayCodec: _plain(_array),
    codecs.PredicateCodec: _plain(_promise),
    codecs.HintsCodec: _plain(_hints),
}


# --- self-describing attributes -------------------------------------------------------------------


def _tagged(cursor: Cursor, tables: ReadTables, depth: int) -> Attribute:
    start = cursor.position
    tag = cursor.varint()
    read = _TAGGED.get(tag)
    if read is None:
        cursor.fail(f"an attribute of a kind that is not known: {tag}", start)
    if depth > _DEEPEST:
        cursor.fail(f"attributes are nested more than {_DEEPEST} deep", start)
    return read(cursor, tables, depth + 1)


def _items(cursor: Cursor, tables: ReadTables, depth: int) -> tuple[Attribute, ...]:
    count = cursor.count("attributes", 2)
    return tuple([_in_array(_tagged(cursor, tables, depth)) for _ in range(count)])


def _in_array(item: Attribute) -> Attribute:
    """Convert an item of an array; numbers keep their element, which identities need."""
    return IntIdentity(Element.I32, item & 0xFFFFFFFF) if type(item) is int else item


def _read_dictionary(cursor: Cursor, tables: ReadTables, depth: int) -> Dictionary:
    items = []
    for _ in range(cursor.count("items of a dictionary", 3)):
        name = tables.strings.text(cursor.varint(), cursor)
        if not name:
            cursor.fail_number("an item of a dictionary has no name")
        items.append((name, _tagged(cursor, tables, depth)))
    return Dictionary(tuple(items))


def _read_hints(cursor: Cursor, tables: ReadTables, depth: int) -> TargetHints:
    start = cursor.position
    targets = _read_dictionary(cursor, tables, depth).items
    if not all(isinstance(given, Dictionary) for _, given in targets):
        cursor.fail("hints for a target are no dictionary", start)
    return TargetHints(targets)  # type: ignore[arg-type]


def _read_integer(cursor: Cursor, tables: ReadTables, _depth: int) -> IntIdentity | int:
    element = _element(cursor, tables)
    if not element.is_integer:
        cursor.fail_number(f"{element.spelling} holds no integers")
    bits = cursor.varint() & (1 << element.bits) - 1
    return bits - ((bits & 1 << 31) << 1) if element is Element.I32 else IntIdentity(element, bits)


def _read_float(cursor: Cursor, tables: ReadTables, _depth: int) -> FloatIdentity:
    element = _element(cursor, tables)
    if element.is_integer:
        cursor.fail_number(f"{element.spelling} holds no floats")
    bits = cursor.byte() if element.bits <= 8 else cursor.pattern()
    held = numbers_of_bits(np.array([bits], np.uint64), element)[0]
    return FloatIdentity(element, held if element.is_held_as_bits or held != held else float(held))


def _element(cursor: Cursor, tables: ReadTables) -> Element:
    element = tables.types.type(cursor.varint(), cursor, (Element,))
    assert isinstance(element, Element)
    return element


def _read_dense(cursor: Cursor, tables: ReadTables, _depth: int) -> DenseElements:
    type_ = tables.types.type(cursor.varint(), cursor, (TileType,))
    assert isinstance(type_, TileType)
    return DenseElements(type_, tables.constants.value(cursor.varint(), type_, cursor))


def _read_div_by(cursor: Cursor, _tables: ReadTables, _depth: int) -> DivBy:
    return DivBy(cursor.varint(), *_two_options(cursor))


def _read_bounded(cursor: Cursor, _tables: ReadTables, _depth: int) -> Bounded:
    return Bounded(*_two_options(cursor))


def _two_options(cursor: Cursor) -> tuple[int | None, int | None]:
    """Read two optional signed numbers."""
    flags = cursor.byte()
    if flags > 3:
        cursor.fail("flags of an attribute that are not known", cursor.position - 1)
    first = cursor.signed() if flags & 1 else None
    return first, cursor.signed() if flags & 2 else None


def _truth(cursor: Cursor) -> bool:
    byte = cursor.byte()
    if byte > 1:
        cursor.fail(f"{byte} is no truth value", cursor.position - 1)
    return bool(byte)


_TAGGED: dict[int, Callable[[Cursor, ReadTables, int], Attribute]] = {
    AttributeTag.INTEGER: _read_integer,
    AttributeTag.FLOAT: _read_float,
    AttributeTag.BOOL: lambda cursor, _tables, _depth: _truth(cursor),
    AttributeTag.TYPE: lambda cursor, tables, _: tables.types.type(cursor.varint(), cursor),
    AttributeTag.STRING: lambda cursor, tables, _: tables.strings.text(cursor.varint(), cursor),
    AttributeTag.ARRAY: _items,
    AttributeTag.DENSE_ELEMENTS: _read_dense,
    AttributeTag.DIV_BY: _read_div_by,
    AttributeTag.SAME_ELEMENTS: lambda cursor, _tables, _depth: SameElements(
        cursor.array("q", "numbers")
    ),
    AttributeTag.DICTIONARY: _read_dictionary,
    AttributeTag.HINTS: _read_hints,
    AttributeTag.BOUNDED: _read_bounded,
}
