"""Types from their text, as `ir.types` prints them."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from typing import Any

from tilewright.dtypes import Element
from tilewright.ir.text.parse_scanner import DIALECT, IDENTIFIER, Scanner
from tilewright.ir.types import (
    TOKEN,
    GatherScatterViewType,
    Padding,
    PartitionViewType,
    PtrAttribute,
    PtrType,
    StridedViewType,
    TensorViewType,
    TileType,
    Type,
)

__all__ = ["is_type", "parse_any_type", "parse_element", "parse_type"]

_EXTENT = re.compile(r"(\?|-?\d{1,20})x")
_ENTRY = re.compile(r"\?|-?\d{1,20}(?!\d)")
_TIMES = re.compile("x")
_ELEMENTS = {element.spelling: element for element in Element}


def parse_type(scanner: Scanner) -> Type:
    """Parse the type of a value."""
    _accept_dialect(scanner)
    for word, parse in _TYPES.items():
        if scanner.accepts(word):
            return parse(scanner)
    scanner.fail("the type of a value")


def _accept_dialect(scanner: Scanner) -> None:
    """Read the optional dialect prefix of a type."""
    if not scanner.accepts(f"!{DIALECT}"):
        scanner.accepts(DIALECT)


def parse_any_type(scanner: Scanner) -> Type | Element | PtrType:
    """Parse any type that can be an attribute."""
    return parse_type(scanner) if _is_value_type(scanner) else _held(scanner)


def is_type(scanner: Scanner) -> bool:
    """Whether a type comes next."""
    word = IDENTIFIER.match(scanner.text, scanner.position)
    return _is_value_type(scanner) or (word is not None and word[0] in (*_ELEMENTS, "ptr"))


def parse_element(scanner: Scanner) -> Element:
    """Parse an element such as `f32`."""
    start = scanner.position
    word = scanner.word("an element such as `f32`")
    if word not in _ELEMENTS:
        scanner.refuse(f"there is no element `{word}`", start)
    return _ELEMENTS[word]


def _is_value_type(scanner: Scanner) -> bool:
    if scanner.sees(f"!{DIALECT}"):
        return True
    return any(scanner.sees(word) or scanner.sees(f"{DIALECT}{word}") for word in _TYPES)


def _tile(scanner: Scanner) -> TileType:
    scanner.expect("<")
    start = scanner.position
    shape = _shape(scanner)
    element = _held(scanner)
    scanner.expect(">")
    if None in shape:
        scanner.refuse("a tile has no extents that are known only at launch", start)
    return TileType(element, shape)  # type: ignore[arg-type]


def _held(scanner: Scanner) -> Element | PtrType:
    _accept_dialect(scanner)
    if not scanner.accepts("ptr"):
        return parse_element(scanner)
    scanner.expect("<")
    pointee = parse_element(scanner)
    attribute = _attribute(scanner)
    scanner.expect(">")
    return PtrType(pointee, attribute)


def _tensor_view(scanner: Scanner) -> TensorViewType:
    scanner.expect("<")
    shape = _shape(scanner)
    element = parse_element(scanner)
    strides: tuple[int | None, ...] = ()
    if scanner.accepts(", strides"):
        scanner.expect("=")
        strides = _entries(scanner)
    attribute = _attribute(scanner)
    scanner.expect(">")
    return TensorViewType(element, shape, strides, attribute)


def _attribute(scanner: Scanner) -> PtrAttribute | None:
    if not scanner.accepts(","):
        return None
    scanner.accepts("#cuda_tile.ptr_attr")
    scanner.expect("<")
    attribute: PtrAttribute = _enum(scanner, PtrAttribute)
    scanner.expect(">")
    return attribute


def _partition_view(scanner: Scanner) -> PartitionViewType:
    scanner.expect("<")
    tile, padding = _cut(scanner), _padding(scanner)
    view = _inner_view(scanner)
    dim_map = _dim_map(scanner, len(tile))
    scanner.expect(">")
    return PartitionViewType(tile, view, dim_map, padding)


def _strided_view(scanner: Scanner) -> StridedViewType:
    scanner.expect("<")
    tile = _cut(scanner)
    scanner.expect("traversal_strides=")
    steps = _integers(scanner)
    scanner.expect(",")
    padding = _padding(scanner)
    view = _inner_view(scanner)
    dim_map = _dim_map(scanner, len(tile))
    scanner.expect(">")
    return StridedViewType(tile, steps, view, dim_map, padding)


def _gather_scatter_view(scanner: Scanner) -> GatherScatterViewType:
    scanner.expect("<")
    tile, padding = _cut(scanner), _padding(scanner)
    view = _inner_view(scanner)
    scanner.expect(", sparse_dim=")
    sparse_dim = scanner.integer()
    scanner.expect(">")
    return GatherScatterViewType(tile, view, sparse_dim, padding)


def _shape(scanner: Scanner) -> tuple[int | None, ...]:
    """Parse extents, each followed by an `x`."""
    extents: list[int | None] = []
    while found := scanner.accept(_EXTENT):
        extents.append(None if found[1] == "?" else int(found[1]))
    return tuple(extents)


def _cut(scanner: Scanner) -> tuple[int, ...]:
    """Parse the extents of a view's tile, and the comma after them."""
    scanner.expect("tile=(")
    extents = [] if scanner.sees(")") else [scanner.integer()]
    while not scanner.accepts(")"):
        scanner.read(_TIMES, "`x` or `)`")
        extents.append(scanner.integer())
    scanner.expect(",")
    return tuple(extents)


def _padding(scanner: Scanner) -> Padding | None:
    if not scanner.accepts("padding_value"):
        return None
    scanner.expect("=")
    padding: Padding = _enum(scanner, Padding)
    scanner.expect(",")
    return padding


def _inner_view(scanner: Scanner) -> TensorViewType:
    scanner.expect("tensor_view")
    return _tensor_view(scanner)


def _dim_map(scanner: Scanner, rank: int) -> tuple[int, ...]:
    if not scanner.accepts(", dim_map"):
        return tuple(range(rank))
    scanner.expect("=")
    return _integers(scanner)


def _integers(scanner: Scanner) -> tuple[int, ...]:
    start = scanner.position
    entries = _entries(scanner)
    if None in entries:
        scanner.refuse("`?` cannot stand in this list", start)
    return entries  # type: ignore[return-value]


def _entries(scanner: Scanner) -> tuple[int | None, ...]:
    """Parse a list of numbers and `?` in brackets."""
    scanner.expect("[")
    entries: list[int | None] = []
    while not scanner.accepts("]"):
        if entries:
            scanner.expect(",")
        found = scanner.read(_ENTRY, "a number or `?`")[0]
        entries.append(None if found == "?" else int(found))
    return tuple(entries)


def _enum(scanner: Scanner, kind: type[Enum]) -> Any:
    start = scanner.position
    word = scanner.word()
    found = next((member for member in kind if member.name.lower() == word), None)
    if found is None:
        names = ", ".join(f"`{member.name.lower()}`" for member in kind)
        scanner.refuse(f"expected {names}, found `{word}`", start)
    return found


_TYPES: dict[str, Callable[[Scanner], Type]] = {
    "tile": _tile,
    "tensor_view": _tensor_view,
    "partition_view": _partition_view,
    "strided_view": _strided_view,
    "gather_scatter_view": _gather_scatter_view,
    "token": lambda _scanner: TOKEN,
}
