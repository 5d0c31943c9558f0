"""Writers of attributes: one for each codec class, and one for each self-describing form.

An op determines the kinds of its attributes, which are written bare; in arrays, dictionaries and
`assume` a tag precedes each attribute.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from tilewright.bytecode.tags import AttributeTag
from tilewright.bytecode.write.stream import ByteStream
from tilewright.bytecode.write.tables import NumberedTable, StringTable, TypeTable
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
    SameElements,
    TargetHints,
)
from tilewright.ir.elements import constant_bytes, element_bits
from tilewright.ir.op import Op, Version
from tilewright.ir.types import (
    FunctionType,
    GatherScatterViewType,
    PartitionViewType,
    PtrType,
    StridedViewType,
    TensorViewType,
    TileType,
    TokenType,
)

__all__ = ["AttributeContext", "Tables", "put_attribute", "put_tagged"]

_TYPES = (
    Element, PtrType, TileType, TensorViewType, PartitionViewType, StridedViewType,
    GatherScatterViewType, FunctionType, TokenType,
)  # fmt: skip


@dataclass
class Tables:
    """Tables that ops refer to by index, filled while ops are written."""

    version: Version
    strings: StringTable
    types: TypeTable
    constants: NumberedTable

    @staticmethod
    def empty(version: Version) -> Tables:
        """Return empty tables."""
        return Tables(version, StringTable(), TypeTable(version), NumberedTable(offset_code="Q"))

    def constant(self, value: Any, type_: TileType) -> int:
        """Return the index of a constant's elements."""
        data = constant_bytes(value, type_)
        item = ByteStream()
        item.put_varint(len(data))
        return self.constants.number(bytes(item + data))


class AttributeContext(NamedTuple):
    """Context of an attribute."""

    op: Op
    codec: codecs.AttributeCodec
    tables: Tables


def put_attribute(stream: ByteStream, value: Any, setting: AttributeContext) -> None:
    """Write one attribute of an op in the bare form."""
    _BARE[type(setting.codec)](stream, value, setting)


def put_tagged(stream: ByteStream, value: Attribute, tables: Tables) -> None:
    """Write one attribute in the self-describing form."""
    tag, put = _TAGGED[type(value)]
    stream.put_varint(tag)
    put(stream, value, tables)


def _put_enum(stream: ByteStream, value: Any, _setting: AttributeContext) -> None:
    stream.put_varint(value.value)


def _put_integer(stream: ByteStream, value: int, _setting: AttributeContext) -> None:
    stream.put_varint(value)


def _put_bool(stream: ByteStream, value: bool, _setting: AttributeContext) -> None:
    stream.append(value)


def _put_string(stream: ByteStream, value: str, setting: AttributeContext) -> None:
    stream.put_varint(setting.tables.strings.text(value))


def _put_int32_array(
    stream: ByteStream, value: tuple[int, ...], _setting: AttributeContext
) -> None:
    stream.put_array(value, "i")


def _put_bool_array(stream: ByteStream, value: tuple[bool, ...], setting: AttributeContext) -> None:
    assert isinstance(setting.codec, codecs.BoolArrayCodec)
    count = len(getattr(setting.op, setting.codec.along))
    stream.put_array(value or (False,) * count, "b")


def _put_constant(stream: ByteStream, value: Any, setting: AttributeContext) -> None:
    type_ = setting.op.results[0].type
    assert isinstance(type_, TileType)
    stream.put_varint(setting.tables.constant(value, type_))


def _put_bare_array(
    stream: ByteStream, value: tuple[Attribute, ...], setting: AttributeContext
) -> None:
    _put_items(stream, value, setting.tables)


def _put_predicate(stream: ByteStream, value: Any, setting: AttributeContext) -> None:
    put_tagged(stream, value, setting.tables)


def _put_bare_hints(stream: ByteStream, value: TargetHints, setting: AttributeContext) -> None:
    _put_hints(stream, value, setting.tables)


_BARE: dict[type[codecs.AttributeCodec], Callable[[ByteStream, Any, AttributeContext], None]] = {
    codecs.EnumCodec: _put_enum,
    codecs.IntCodec: _put_integer,
    codecs.BoolCodec: _put_bool,
    codecs.StringCodec: _put_string,
    codecs.SymbolCodec: _put_string,
    codecs.Int32ArrayCodec: _put_int32_array,
    codecs.BoolArrayCodec: _put_bool_array,
    codecs.ConstantCodec: _put_constant,
    codecs.ArrayCodec: _put_bare_array,
    codecs.PredicateCodec: _put_predicate,
    codecs.HintsCodec: _put_bare_hints,
}


def _put_items(stream: ByteStream, value: tuple[Attribute, ...], tables: Tables) -> None:
    stream.put_varint(len(value))
    for item in value:
        put_tagged(stream, item, tables)


def _put_named(
    stream: ByteStream, items: tuple[tuple[str, Attribute], ...], tables: Tables
) -> None:
    stream.put_varint(len(items))
    for name, value in items:
        stream.put_varint(tables.strings.text(name))
        put_tagged(stream, value, tables)


def _put_dictionary(stream: ByteStream, value: Dictionary, tables: Tables) -> None:
    _put_named(stream, value.items, tables)


def _put_hints(stream: ByteStream, value: TargetHints, tables: Tables) -> None:
    _put_named(stream, value.targets, tables)


def _put_truth(stream: ByteStream, value: bool, _tables: Tables) -> None:
    stream.append(value)


def _put_small_integer(stream: ByteStream, value: int, tables: Tables) -> None:
    _put_typed_integer(stream, IntIdentity(Element.I32, value), tables)


def _put_typed_integer(stream: ByteStream, value: IntIdentity, tables: Tables) -> None:
    stream.put_varint(tables.types.type(value.element))
    stream.put_varint(int(element_bits([value.value], value.element)[0]))


def _put_float(stream: ByteStream, value: FloatIdentity, tables: Tables) -> None:
    stream.put_varint(tables.types.type(value.element))
    bits = int(element_bits([value.value], value.element)[0])
    if value.element.bits <= 8:
        stream.append(bits)
    else:
        stream.put_signed(bits)


def _put_type(stream: ByteStream, value: Any, tables: Tables) -> None:
    stream.put_varint(tables.types.type(value))


def _put_text(stream: ByteStream, value: str, tables: Tables) -> None:
    stream.put_varint(tables.strings.text(value))


def _put_elements(stream: ByteStream, value: DenseElements, tables: Tables) -> None:
    stream.put_varint(tables.types.type(value.type))
    stream.put_varint(tables.constant(value.value, value.type))


def _put_div_by(stream: ByteStream, value: DivBy, _tables: Tables) -> None:
    stream.put_varint(value.divisor)
    _put_present(stream, value.every, value.along)


def _put_bounded(stream: ByteStream, value: Bounded, _tables: Tables) -> None:
    _put_present(stream, value.lower, value.upper)


def _put_present(stream: ByteStream, *numbers: int | None) -> None:
    """Write a bit for each number that is present, then the present numbers."""
    stream.append(sum((number is not None) << bit for bit, number in enumerate(numbers)))
    for number in numbers:
        if number is not None:
            stream.put_signed(number)


def _put_same_elements(stream: ByteStream, value: SameElements, _tables: Tables) -> None:
    stream.put_array(value.groups, "q")


_TAGGED: dict[type, tuple[AttributeTag, Callable[[ByteStream, Any, Tables], None]]] = {
    bool: (AttributeTag.BOOL, _put_truth),
    int: (AttributeTag.INTEGER, _put_small_integer),
    IntIdentity: (AttributeTag.INTEGER, _put_typed_integer),
    FloatIdentity: (AttributeTag.FLOAT, _put_float),
    str: (AttributeTag.STRING, _put_text),
    tuple: (AttributeTag.ARRAY, _put_items),
    DenseElements: (AttributeTag.DENSE_ELEMENTS, _put_elements),
    DivBy: (AttributeTag.DIV_BY, _put_div_by),
    SameElements: (AttributeTag.SAME_ELEMENTS, _put_same_elements),
    Dictionary: (AttributeTag.DICTIONARY, _put_dictionary),
    TargetHints: (AttributeTag.HINTS, _put_hints),
    Bounded: (AttributeTag.BOUNDED, _put_bounded),
    **dict.fromkeys(_TYPES, (AttributeTag.TYPE, _put_type)),
}
