"""How each type is written in the type section, and which types it is made of.

One row a type class in `_WRITERS`; the numbers of the component types are passed in, so that no row
knows the table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilewright.bytecode.stream import Stream
from tilewright.dtypes import Element
from tilewright.ir.op import Version
from tilewright.ir.types import (
    PartitionViewType,
    PtrType,
    TensorViewType,
    TileType,
    TokenType,
    Type,
)

__all__ = ["BytecodeType", "FunctionType", "components", "write_type"]

_DYNAMIC = -(1 << 63)
_LEADING_FLAGS = (13, 4)  # pointers and tensor views carry a flags number from here on
_VIEW_FLAGS = (13, 3)  # partition views likewise


@dataclass(frozen=True)
class FunctionType:
    """Parameters and results of an entry; not the type of any value."""

    params: tuple[Type, ...]
    results: tuple[Type, ...] = ()


BytecodeType = Type | Element | PtrType | FunctionType  # what the type section holds
_Parts = tuple[int, ...]


def components(type_: BytecodeType) -> tuple[BytecodeType, ...]:
    """The types that `type_` refers to."""
    return _COMPONENTS[type(type_)](type_)


def write_type(type_: BytecodeType, parts: _Parts, version: Version) -> bytes:
    """The bytes of one item of the type section; `parts` are the numbers of its components."""
    stream = Stream()
    _WRITERS[type(type_)](stream, type_, parts, version)
    return bytes(stream)


def _put_element(stream: Stream, type_: Element, _parts: _Parts, _version: Version) -> None:
    stream.put_varint(type_.value.tag)


def _put_pointer(stream: Stream, _type: PtrType, parts: _Parts, version: Version) -> None:
    stream.put_varint(12)
    if version >= _LEADING_FLAGS:
        stream.put_varint(0)
    stream.put_varint(parts[0])


def _put_tile(stream: Stream, type_: TileType, parts: _Parts, _version: Version) -> None:
    stream.put_varint(13)
    stream.put_varint(parts[0])
    stream.put_array(type_.shape, "q")


def _put_tensor_view(
    stream: Stream, type_: TensorViewType, parts: _Parts, version: Version
) -> None:
    stream.put_varint(14)
    if version >= _LEADING_FLAGS:
        stream.put_varint(0)
    stream.put_varint(parts[0])
    for extents in (type_.shape, type_.strides):
        stream.put_array((_DYNAMIC if extent is None else extent for extent in extents), "q")


def _put_partition_view(
    stream: Stream, type_: PartitionViewType, parts: _Parts, version: Version
) -> None:
    padded = type_.padding is not None
    stream.put_varint(15)
    if version >= _VIEW_FLAGS:
        stream.put_varint(padded)
    stream.put_array(type_.tile, "i")
    stream.put_varint(parts[0])
    stream.put_array(type_.dim_map, "i")
    if version < _VIEW_FLAGS:
        stream.put_varint(padded)
    if type_.padding is not None:
        stream.put_varint(type_.padding.value)


def _put_function(stream: Stream, type_: FunctionType, parts: _Parts, _version: Version) -> None:
    stream.put_varint(16)
    count = len(type_.params)
    for group in (parts[:count], parts[count:]):
        stream.put_varint(len(group))
        for part in group:
            stream.put_varint(part)


def _put_token(stream: Stream, _type: TokenType, _parts: _Parts, _version: Version) -> None:
    stream.put_varint(17)


_WRITERS: dict[type, Callable[[Stream, Any, _Parts, Version], None]] = {
    Element: _put_element,
    PtrType: _put_pointer,
    TileType: _put_tile,
    TensorViewType: _put_tensor_view,
    PartitionViewType: _put_partition_view,
    FunctionType: _put_function,
    TokenType: _put_token,
}

_COMPONENTS: dict[type, Callable[[Any], tuple[BytecodeType, ...]]] = {
    Element: lambda _: (),
    PtrType: lambda t: (t.pointee,),
    TileType: lambda t: (t.element,),
    TensorViewType: lambda t: (t.element,),
    PartitionViewType: lambda t: (t.view,),
    FunctionType: lambda t: t.params + t.results,
    TokenType: lambda _: (),
}
