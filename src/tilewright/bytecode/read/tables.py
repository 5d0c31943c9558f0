"""Readers of the container's numbered tables: items by index, decoded on demand.

An item is a window of the file. Strings and constants are decoded once, however often they are
used, so that the reader's work is bounded by the file's length.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from tilewright.bytecode.read.cursor import Cursor
from tilewright.dtypes import Element
from tilewright.ir.elements import numbers_of_bytes
from tilewright.ir.types import TileType

__all__ = ["ConstantReader", "Items", "StringReader"]

_MOST_AXES = 32  # NumPy's limit
_TRUTH_SPLATS = (b"\x00", b"\xff")


class Items:
    """Windows of a table's items, by index."""

    def __init__(
        self, cursor: Cursor | None, what: str, *, first: int = 0, code: str = "I"
    ) -> None:
        self._what = what
        self._first = first
        self._data = b"" if cursor is None else cursor.data
        self._starts: tuple[int, ...] = ()
        self._base = self._end = 0
        if cursor is not None:
            self._read_offsets(cursor, code)

    def _read_offsets(self, cursor: Cursor, code: str) -> None:
        origin, width = cursor.position, struct.calcsize(f"<{code}")
        count = cursor.count(f"offsets of {self._what}s", width)
        cursor.align(width, origin)
        place = cursor.position
        starts = cursor.numbers(count, code, f"the offsets of {self._what}s")
        self._base, self._end = cursor.position, cursor.end
        previous = 0
        for number, start in enumerate(starts):
            if not previous <= start <= cursor.left:
                what = f"{self._what} {number + self._first} starts at {start}"
                reason = f"{what}, outside the {cursor.left} bytes of the table or before another"
                cursor.fail(reason, place + width * number)
            previous = start
        self._starts = starts

    def __len__(self) -> int:
        return len(self._starts)

    def item(self, number: int, user: Cursor) -> Cursor:
        """Return the window of an item; `user` has just read its index."""
        index = number - self._first
        if not 0 <= index < len(self._starts):
            user.fail_number(f"there is no {self._what} {number}; there are {len(self._starts)}")
        starts = self._starts
        end = starts[index + 1] + self._base if index + 1 < len(starts) else self._end
        return Cursor(self._data, self._base + starts[index], end)


class StringReader:
    """Strings by index."""

    def __init__(self, items: Items) -> None:
        self._items = items
        self._known: dict[int, str] = {}

    def text(self, number: int, user: Cursor) -> str:
        """Return the string at an index that `user` has just read."""
        found = self._known.get(number)
        if found is None:
            window = self._items.item(number, user)
            try:
                found = window.data[window.position : window.end].decode()
            except UnicodeDecodeError as error:
                window.fail(f"string {number} is not UTF-8", window.position + error.start)
            self._known[number] = found
        return found


class ConstantReader:
    """Constants by index: one number for every element, or an array."""

    def __init__(self, items: Items) -> None:
        self._items = items
        self._known: dict[tuple[int, Element], tuple[bool, np.ndarray[Any, Any]]] = {}

    def value(self, number: int, type_: object, user: Cursor) -> Any:
        """Return the constant at an index that `user` has just read, as a tile of `type_`."""
        if not isinstance(type_, TileType) or not isinstance(type_.element, Element):
            user.fail_number("only tiles of numbers can be constants")
        if type_.rank > _MOST_AXES:
            user.fail_number(f"a constant cannot have {type_.rank} axes")
        key = number, type_.element
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._read(number, type_.element, user)
        is_splat, numbers = known
        if is_splat or type_.size == 1:
            return _number(numbers[0], type_.element)
        if not _fits(numbers.size, type_):
            user.fail_number(f"constant {number} has {numbers.size} elements, which are no {type_}")
        return numbers[: type_.size].reshape(type_.shape)

    def _read(
        self, number: int, element: Element, user: Cursor
    ) -> tuple[bool, np.ndarray[Any, Any]]:
        """Return whether one number stands for all elements, and the numbers."""
        window = self._items.item(number, user)
        start = window.position
        length = window.count("bytes of a constant")
        place = window.take(length, "a constant")
        data = window.data[place : place + length]
        numbers = numbers_of_bytes(data, element)
        if numbers is None or not numbers.size:
            window.fail(f"{length} bytes are no whole number of {element.spelling}", start)
        numbers.flags.writeable = False
        return data in _TRUTH_SPLATS if element is Element.I1 else numbers.size == 1, numbers


def _number(held: Any, element: Element) -> Any:
    """Return a Python number, or for a NaN the NumPy scalar, which keeps its bits."""
    if element.is_integer:
        return bool(held) if element is Element.I1 else int(held)
    return held if element.is_held_as_bits or held != held else float(held)


def _fits(count: int, type_: TileType) -> bool:
    """Whether a tile has that many elements; truth values come in whole bytes."""
    rest = -type_.size % 8 if type_.element is Element.I1 else 0
    return count == type_.size + rest
