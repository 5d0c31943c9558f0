"""Reader of the type section: types by index, resolved on demand.

A type may refer to types of any index, later ones included. The readers below fix the legal
components of each kind, so that no reference cycle can be followed.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

from tilewright.bytecode.read.cursor import Cursor
from tilewright.bytecode.read.tables import Items
from tilewright.bytecode.tags import TypeTag
from tilewright.bytecode.write.types import DYNAMIC, POINTER_FLAGS, VIEW_FLAGS, BytecodeType
from tilewright.dtypes import Element
from tilewright.ir.op import Version
from tilewright.ir.types import (
    TOKEN,
    FunctionType,
    GatherScatterViewType,
    Padding,
    PartitionViewType,
    PtrAttribute,
    PtrType,
    StridedViewType,
    TensorViewType,
    TileType,
    TokenType,
    Type,
)

__all__ = ["TypeReader"]

_HAS_OPTION = 1  # the only bit in use

_NUMBERS = (Element,)
_HELD = (Element, PtrType)
_TENSORS = (TensorViewType,)
_VIEWS = (PartitionViewType, StridedViewType, GatherScatterViewType)
_VALUES = (TileType, TensorViewType, *_VIEWS, TokenType)
_ALL = (*_HELD, *_VALUES, FunctionType)
_WORDS: dict[type, str] = {
    Element: "an element",
    PtrType: "a pointer",
    TileType: "a tile",
    TensorViewType: "a tensor view",
    PartitionViewType: "a partition view",
    StridedViewType: "a strided view",
    GatherScatterViewType: "a gather-scatter view",
    TokenType: "a token",
    FunctionType: "a signature",
}
_ELEMENTS = {element.value.tag: element for element in Element}


class TypeReader:
    """Types by index."""

    def __init__(self, items: Items, version: Version) -> None:
        self.version = version
        self._items = items
        self._known: dict[int, BytecodeType] = {}
        self._of_values: dict[int, Type] = {}  # types of SSA values

    def value_types(self, count: int, user: Cursor) -> tuple[Type, ...]:
        """Return the types of values, whose indices come next."""
        known, start = self._of_values, user.position
        try:
            if count == 1:
                return (known[user.varint()],)
            return tuple([known[number] for number in user.varints(count)])
        except KeyError:
            user.position = start
            return tuple([self._value_type(user) for _ in range(count)])

    def _value_type(self, user: Cursor) -> Type:
        number = user.varint()
        found: Type = self.type(number, user, _VALUES)  # type: ignore[assignment]
        self._of_values[number] = found
        return found

    def signature(self, number: int, user: Cursor) -> FunctionType:
        """Return the type of a function."""
        found = self.type(number, user, (FunctionType,))
        assert isinstance(found, FunctionType)
        return found

    def type(self, number: int, user: Cursor, allowed: tuple[type, ...] = _ALL) -> BytecodeType:
        """Return a type of one of the allowed kinds, at an index that `user` has just read."""
        found = self._known.get(number)
        if found is not None:
            _check_kind(type(found), allowed, number, user)
            return found
        window = self._items.item(number, user)
        start = window.position
        tag = window.varint()
        kind = _kind_of(tag, self.version)
        if kind is None:
            window.fail(f"type {number} is of a kind that is not known: {tag}", start)
        _check_kind(kind, allowed, number, user)
        found = _ELEMENTS[tag] if kind is Element else _KINDS[tag].read(self, window)
        if window.left:
            window.fail(f"type {number} ({_WORDS[kind]}) has {window.left} bytes too many")
        self._known[number] = found
        return found


def _check_kind(kind: type, allowed: tuple[type, ...], number: int, user: Cursor) -> None:
    if not issubclass(kind, allowed):
        user.fail_number(f"type {number} ({_WORDS[kind]}) cannot stand here")


def _kind_of(tag: int, version: Version) -> type | None:
    """Return the class of a type, if the version has it."""
    element = _ELEMENTS.get(tag)
    if element is not None:
        return Element if element.value.since <= version else None
    row = _KINDS.get(tag)
    return row.kind if row is not None and row.since <= version else None


def _read_pointer(types: TypeReader, window: Cursor) -> PtrType:
    flags = _flags(window) if types.version >= POINTER_FLAGS else 0
    pointee = types.type(window.varint(), window, _NUMBERS)
    assert isinstance(pointee, Element)
    return PtrType(pointee, _option(window, flags, PtrAttribute))


def _read_tile(types: TypeReader, window: Cursor) -> TileType:
    element = types.type(window.varint(), window, _HELD)
    assert isinstance(element, _HELD)
    return TileType(element, window.array("q", "extents"))


def _read_tensor_view(types: TypeReader, window: Cursor) -> TensorViewType:
    flags = _flags(window) if types.version >= POINTER_FLAGS else 0
    element = types.type(window.varint(), window, _NUMBERS)
    assert isinstance(element, Element)
    shape, strides = (
        tuple(None if extent == DYNAMIC else extent for extent in window.array("q", what))
        for what in ("extents", "strides")
    )
    return TensorViewType(element, shape, strides, _option(window, flags, PtrAttribute))


def _read_partition_view(types: TypeReader, window: Cursor) -> PartitionViewType:
    leading = types.version >= VIEW_FLAGS
    flags = _flags(window) if leading else 0
    tile = window.array("i", "extents")
    view = _tensor_view(types, window)
    dim_map = window.array("i", "axes")
    flags = flags if leading else _flags(window)
    return PartitionViewType(tile, view, dim_map, _option(window, flags, Padding))


def _read_strided_view(types: TypeReader, window: Cursor) -> StridedViewType:
    flags = _flags(window)
    tile, steps = window.array("i", "extents"), window.array("i", "steps")
    view = _tensor_view(types, window)
    dim_map = window.array("i", "axes")
    return StridedViewType(tile, steps, view, dim_map, _option(window, flags, Padding))


def _read_gather_scatter_view(types: TypeReader, window: Cursor) -> GatherScatterViewType:
    flags = _flags(window)
    tile = window.array("i", "extents")
    view = _tensor_view(types, window)
    sparse_dim = window.varint()
    return GatherScatterViewType(tile, view, sparse_dim, _option(window, flags, Padding))


def _read_function(types: TypeReader, window: Cursor) -> FunctionType:
    params, results = (
        types.value_types(window.count(f"{what} types"), window) for what in ("parameter", "result")
    )
    return FunctionType(params, results)


def _read_token(_types: TypeReader, _window: Cursor) -> TokenType:
    return TOKEN


def _tensor_view(types: TypeReader, window: Cursor) -> TensorViewType:
    view = types.type(window.varint(), window, _TENSORS)
    assert isinstance(view, TensorViewType)
    return view


def _flags(window: Cursor) -> int:
    start = window.position
    flags = window.varint()
    if flags > _HAS_OPTION:
        window.fail(f"flags of a type that are not known: {flags:#x}", start)
    return flags


def _option(window: Cursor, flags: int, kind: type[Enum]) -> Any:
    """Read the optional end of a type: a member of an enum, if the flags mark it as present."""
    if not flags:
        return None
    start = window.position
    number = window.varint()
    try:
        return kind(number)
    except ValueError:
        window.fail(f"there is no {kind.__name__} {number}", start)


class _Row(NamedTuple):
    kind: type
    read: Callable[[TypeReader, Cursor], BytecodeType]
    since: Version = (13, 1)


_KINDS: dict[int, _Row] = {
    TypeTag.POINTER: _Row(PtrType, _read_pointer),
    TypeTag.TILE: _Row(TileType, _read_tile),
    TypeTag.TENSOR_VIEW: _Row(TensorViewType, _read_tensor_view),
    TypeTag.PARTITION_VIEW: _Row(PartitionViewType, _read_partition_view),
    TypeTag.FUNCTION: _Row(FunctionType, _read_function),
    TypeTag.TOKEN: _Row(TokenType, _read_token),
    TypeTag.GATHER_SCATTER_VIEW: _Row(GatherScatterViewType, _read_gather_scatter_view, (13, 3)),
    TypeTag.STRIDED_VIEW: _Row(StridedViewType, _read_strided_view, (13, 3)),
}
