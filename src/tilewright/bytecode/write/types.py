"""Writers of the type section: the encoding of each type, and its component types.

`_WRITERS` has one row for each type class; a row receives the indices of its component types, and
so does not depend on the table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.bytecode.tags import TypeTag
from tilewright.bytecode.write.stream import ByteStream
from tilewright.dtypes import Element
from tilewright.ir.op import Version
from tilewright.ir.types import (
    FunctionType,
    GatherScatterViewType,
    PartitionViewType,
    PtrType,
    StridedViewType,
    TensorViewType,
    TileType,
    TokenType,
    Type,
    ViewType,
)

__all__ = ["DYNAMIC", "POINTER_FLAGS", "VIEW_FLAGS", "BytecodeType", "components", "write_type"]

DYNAMIC = -(1 << 63)  # an extent or a stride known only at launch
POINTER_FLAGS: Version = (13, 4)  # first version with flags on pointers and tensor views
VIEW_FLAGS: Version = (13, 3)  # the same for partition views, which had them last before

BytecodeType = Type | Element | PtrType | FunctionType  # items of the type section
_Parts = tuple[int, ...]


def components(type_: BytecodeType) -> tuple[BytecodeType, ...]:
    """Return the types that `type_` refers to."""
    return _COMPONENTS[type(type_)](type_)


def write_type(type_: BytecodeType, parts: _Parts, version: Version) -> bytes:
    """Return one item of the type section; `parts` are the indices of its components."""
    stream = ByteStream()
    _WRITERS[type(type_)](stream, type_, parts, version)
    return bytes(stream)


def _put_element(stream: ByteStream, type_: Element, _parts: _Parts, _version: Version) -> None:
    stream.put_varint(type_.value.tag)


def _put_pointer(stream: ByteStream, type_: PtrType, parts: _Parts, version: Version) -> None:
    stream.put_varint(TypeTag.POINTER)
    _put_pointer_flags(stream, type_, version)
    stream.put_varint(parts[0])
    _put_pointer_attribute(stream, type_)


def _put_pointer_flags(
    stream: ByteStream, type_: PtrType | TensorViewType, version: Version
) -> None:
    if version >= POINTER_FLAGS:
        stream.put_varint(type_.attribute is not None)


def _put_pointer_attribute(stream: ByteStream, type_: PtrType | TensorViewType) -> None:
    if type_.attribute is not None:
        stream.put_varint(type_.attribute.value)


def _put_tile(stream: ByteStream, type_: TileType, parts: _Parts, _version: Version) -> None:
    stream.put_varint(TypeTag.TILE)
    stream.put_varint(parts[0])
    stream.put_array(type_.shape, "q")


def _put_tensor_view(
    stream: ByteStream, type_: TensorViewType, parts: _Parts, version: Version
) -> None:
    stream.put_varint(TypeTag.TENSOR_VIEW)
    _put_pointer_flags(stream, type_, version)
    stream.put_varint(parts[0])
    for extents in (type_.shape, type_.strides):
        stream.put_array((DYNAMIC if extent is None else extent for extent in extents), "q")
    _put_pointer_attribute(stream, type_)


def _put_partition_view(
    stream: ByteStream, type_: PartitionViewType, parts: _Parts, version: Version
) -> None:
    padded = type_.padding is not None
    stream.put_varint(TypeTag.PARTITION_VIEW)
    if version >= VIEW_FLAGS:
        stream.put_varint(padded)
    stream.put_array(type_.tile, "i")
    stream.put_varint(parts[0])
    stream.put_array(type_.dim_map, "i")
    if version < VIEW_FLAGS:
        stream.put_varint(padded)
    _put_padding(stream, type_)


def _padded_view(
    tag: TypeTag, put_places: Callable[[ByteStream, Any, int], None]
) -> Callable[[ByteStream, Any, _Parts, Version], None]:
    """Return the writer of a view with its flags in front; `put_places` writes how tiles lie."""

    def put(stream: ByteStream, type_: Any, parts: _Parts, _version: Version) -> None:
        stream.put_varint(tag)
        stream.put_varint(type_.padding is not None)
        stream.put_array(type_.tile, "i")
        put_places(stream, type_, parts[0])
        _put_padding(stream, type_)

    return put


def _put_strided_places(stream: ByteStream, type_: StridedViewType, view: int) -> None:
    stream.put_array(type_.traversal_strides, "i")
    stream.put_varint(view)
    stream.put_array(type_.dim_map, "i")


def _put_gathered_places(stream: ByteStream, type_: GatherScatterViewType, view: int) -> None:
    stream.put_varint(view)
    stream.put_varint(type_.sparse_dim)


def _put_padding(stream: ByteStream, type_: ViewType) -> None:
    if type_.padding is not None:
        stream.put_varint(type_.padding.value)


def _put_function(
    stream: ByteStream, type_: FunctionType, parts: _Parts, _version: Version
) -> None:
    stream.put_varint(TypeTag.FUNCTION)
    count = len(type_.params)
    for group in (parts[:count], parts[count:]):
        stream.put_varint(len(group))
        for part in group:
            stream.put_varint(part)


def _put_token(stream: ByteStream, _type: TokenType, _parts: _Parts, _version: Version) -> None:
    stream.put_varint(TypeTag.TOKEN)


_WRITERS: dict[type, Callable[[ByteStream, Any, _Parts, Version], None]] = {
    Element: _put_element,
    PtrType: _put_pointer,
    TileType: _put_tile,
    TensorViewType: _put_tensor_view,
    PartitionViewType: _put_partition_view,
    StridedViewType: _padded_view(TypeTag.STRIDED_VIEW, _put_strided_places),
    GatherScatterViewType: _padded_view(TypeTag.GATHER_SCATTER_VIEW, _put_gathered_places),
    FunctionType: _put_function,
    TokenType: _put_token,
}

_COMPONENTS: dict[type, Callable[[Any], tuple[BytecodeType, ...]]] = {
    Element: lambda _: (),
    PtrType: lambda t: (t.pointee,),
    TileType: lambda t: (t.element,),
    TensorViewType: lambda t: (t.element,),
    PartitionViewType: lambda t: (t.view,),
    StridedViewType: lambda t: (t.view,),
    GatherScatterViewType: lambda t: (t.view,),
    FunctionType: lambda t: t.params + t.results,
    TokenType: lambda _: (),
}
