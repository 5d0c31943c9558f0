"""How each kind of attribute is written: one writer a codec class, and the self-describing forms.

Inside an op an attribute is written bare, because the op says what it is; in arrays, dictionaries
and `assume` it is preceded by a tag.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.bytecode.stream import Stream
from tilewright.bytecode.tables import StringTable, Table, TypeTable
from tilewright.dtypes import Element
from tilewright.ir.attributes import (
    ArrayCodec,
    AttributeCodec,
    BoolArrayCodec,
    BoolCodec,
    Bounded,
    ConstantCodec,
    DivBy,
    EnumCodec,
    FloatIdentity,
    HintsCodec,
    Int32ArrayCodec,
    IntCodec,
    IntIdentity,
    LoadHints,
    PredicateCodec,
    StringCodec,
)
from tilewright.ir.elements import constant_bytes, element_bits
from tilewright.ir.function import EntryHints
from tilewright.ir.op import Op, Version

__all__ = ["Setting", "Tables", "put_attribute", "put_entry_hints"]

_INTEGER, _FLOAT, _BOOL = 1, 2, 3
_DIV_BY, _DICTIONARY, _HINTS, _BOUNDED = 8, 10, 11, 12
_ANY_TARGET = "default"


@dataclass
class Tables:
    """The tables that ops refer to by number, filled while ops are written."""

    version: Version
    strings: StringTable
    types: TypeTable
    constants: Table

    @staticmethod
    def empty(version: Version) -> Tables:
        """Tables with nothing in them."""
        return Tables(version, StringTable(), TypeTable(version), Table(offset_code="Q"))


@dataclass(frozen=True)
class Setting:
    """Where an attribute stands."""

    op: Op
    codec: AttributeCodec
    tables: Tables


def put_attribute(stream: Stream, value: Any, setting: Setting) -> None:
    """Write one attribute of an op in the bare form."""
    _BARE[type(setting.codec)](stream, value, setting)


def put_entry_hints(stream: Stream, hints: EntryHints, tables: Tables) -> None:
    """Write the advice on a whole entry, which holds for every target."""
    given = {
        "num_cta_in_cga": hints.num_ctas,
        "occupancy": hints.occupancy,
        "num_worker_warps_per_cta": hints.num_worker_warps,
    }
    stream.put_varint(_HINTS)
    _put_hints(stream, given, tables)


def _put_enum(stream: Stream, value: Any, _setting: Setting) -> None:
    stream.put_varint(value.value)


def _put_integer(stream: Stream, value: int, _setting: Setting) -> None:
    stream.put_varint(value)


def _put_bool(stream: Stream, value: bool, _setting: Setting) -> None:
    stream.append(value)


def _put_string(stream: Stream, value: str, setting: Setting) -> None:
    stream.put_varint(setting.tables.strings.text(value))


def _put_int32_array(stream: Stream, value: tuple[int, ...], _setting: Setting) -> None:
    stream.put_array(value, "i")


def _put_bool_array(stream: Stream, value: tuple[bool, ...], setting: Setting) -> None:
    assert isinstance(setting.codec, BoolArrayCodec)
    count = len(getattr(setting.op, setting.codec.along))
    stream.put_array(value or (False,) * count, "b")


def _put_constant(stream: Stream, value: Any, setting: Setting) -> None:
    data = constant_bytes(value, setting.op.results[0].type)  # type: ignore[arg-type]
    item = Stream()
    item.put_varint(len(data))
    stream.put_varint(setting.tables.constants.number(bytes(item + data)))


def _put_tagged_array(stream: Stream, value: tuple[Any, ...], setting: Setting) -> None:
    stream.put_varint(len(value))
    for item in value:
        _put_tagged(stream, item, setting.tables)


def _put_predicate(stream: Stream, value: Any, setting: Setting) -> None:
    _put_tagged(stream, value, setting.tables)


def _put_load_hints(stream: Stream, value: LoadHints, setting: Setting) -> None:
    _put_hints(stream, {"allow_tma": value.allow_tma, "latency": value.latency}, setting.tables)


_BARE: dict[type[AttributeCodec], Callable[[Stream, Any, Setting], None]] = {
    EnumCodec: _put_enum,
    IntCodec: _put_integer,
    BoolCodec: _put_bool,
    StringCodec: _put_string,
    Int32ArrayCodec: _put_int32_array,
    BoolArrayCodec: _put_bool_array,
    ConstantCodec: _put_constant,
    ArrayCodec: _put_tagged_array,
    PredicateCodec: _put_predicate,
    HintsCodec: _put_load_hints,
}


def _put_hints(stream: Stream, given: Mapping[str, int | None], tables: Tables) -> None:
    """A dictionary with one target, whose value is the dictionary of the hints that are given."""
    stream.put_varint(1)
    stream.put_varint(tables.strings.text(_ANY_TARGET))
    stream.put_varint(_DICTIONARY)
    present = {name: value for name, value in given.items() if value is not None}
    stream.put_varint(len(present))
    for name, value in present.items():
        stream.put_varint(tables.strings.text(name))
        _put_tagged(stream, value, tables)


def _put_tagged(stream: Stream, value: Any, tables: Tables) -> None:
    _TAGGED[type(value)](stream, value, tables)


def _put_tagged_bool(stream: Stream, value: bool, _tables: Tables) -> None:
    stream.put_varint(_BOOL)
    stream.append(value)


def _put_tagged_int(stream: Stream, value: int, tables: Tables) -> None:
    _put_int_identity(stream, IntIdentity(Element.I32, value), tables)


def _put_int_identity(stream: Stream, value: IntIdentity, tables: Tables) -> None:
    stream.put_varint(_INTEGER)
    stream.put_varint(tables.types.type(value.element))
    stream.put_varint(int(element_bits([value.value], value.element)[0]))


def _put_float_identity(stream: Stream, value: FloatIdentity, tables: Tables) -> None:
    stream.put_varint(_FLOAT)
    stream.put_varint(tables.types.type(value.element))
    bits = int(element_bits([value.value], value.element)[0])
    if value.element.bits <= 8:
        stream.append(bits)
    else:
        stream.put_signed(bits)


def _put_div_by(stream: Stream, value: DivBy, _tables: Tables) -> None:
    stream.put_varint(_DIV_BY)
    stream.put_varint(value.divisor)
    stream.append(0)


def _put_bounded(stream: Stream, value: Bounded, _tables: Tables) -> None:
    stream.put_varint(_BOUNDED)
    stream.append((value.lower is not None) | (value.upper is not None) << 1)
    for bound in (value.lower, value.upper):
        if bound is not None:
            stream.put_signed(bound)


_TAGGED: dict[type, Callable[[Stream, Any, Tables], None]] = {
    bool: _put_tagged_bool,
    int: _put_tagged_int,
    IntIdentity: _put_int_identity,
    FloatIdentity: _put_float_identity,
    DivBy: _put_div_by,
    Bounded: _put_bounded,
}
