"""Cursor over untrusted bytes: every length is checked against the remaining bytes.

A `Cursor` walks over a window of the file and knows its offset in the whole, so that an error names
the byte. The interpretation of the numbers is left to the readers.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NoReturn

from tilewright.errors import MalformedBytecodeError

__all__ = ["Cursor"]

_LONGEST_VARINT = 10
_LIMIT = 1 << 64


class Cursor:
    """A position in the bytes, and the end of the readable window."""

    __slots__ = ("data", "end", "position")

    def __init__(self, data: bytes, position: int, end: int) -> None:
        self.data = data
        self.position = position
        self.end = end

    @property
    def left(self) -> int:
        """Number of bytes that remain."""
        return self.end - self.position

    def fail(self, reason: str, at: int | None = None) -> NoReturn:
        """Refuse the file at the current position, or at another."""
        raise MalformedBytecodeError(reason, self.position if at is None else at)

    def fail_number(self, reason: str) -> NoReturn:
        """Refuse the file at the number that was read last."""
        start = self.position - 1
        while (
            start > 0 and self.data[start - 1] >= 0x80 and self.position - start < _LONGEST_VARINT
        ):
            start -= 1
        self.fail(reason, start)

    def byte(self) -> int:
        """Read one byte."""
        position = self.position
        if position >= self.end:
            self.fail("the data ends where a byte is needed")
        self.position = position + 1
        return self.data[position]

    def varint(self) -> int:
        """Read a varint: unsigned, at most 64 bits, seven bits a byte, least first."""
        position = self.position
        if position >= self.end:
            self.fail("the data ends where a number is needed")
        first = self.data[position]
        self.position = position + 1
        return first if first < 0x80 else self._rest_of_varint(first & 0x7F, position)

    def _rest_of_varint(self, value: int, start: int) -> int:
        data, shift = self.data, 7
        for position in range(start + 1, min(self.end, start + _LONGEST_VARINT)):
            byte = data[position]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                self.position = position + 1
                if value >= _LIMIT:
                    self.fail("a number has more than 64 bits", start)
                return value
            shift += 7
        if self.end < start + _LONGEST_VARINT:
            self.fail("the data ends within a number", start)
        self.fail("a number has more than 64 bits", start)

    def varints(self, count: int) -> Sequence[int]:
        """Read several varints."""
        end = self.position + count
        if end <= self.end:
            run = self.data[self.position : end]
            if run.isascii():  # the common case: one byte each
                self.position = end
                return run
        return [self.varint() for _ in range(count)]

    def signed(self) -> int:
        """Read a 64-bit signed varint, zigzag-encoded so that small magnitudes are short."""
        folded = self.varint()
        return folded >> 1 ^ -(folded & 1)

    def pattern(self) -> int:
        """Read a signed varint as its 64 bits."""
        return self.signed() & _LIMIT - 1

    def count(self, what: str, least: int = 1) -> int:
        """Read a count of items of at least `least` bytes each, which must fit the rest."""
        start = self.position
        number = self.varint()
        if number * least > self.end - self.position:
            self.fail(f"{number} {what} do not fit in the {self.left} bytes that are left", start)
        return number

    def take(self, length: int, what: str) -> int:
        """Skip a run of bytes; return its offset."""
        start = self.position
        if length > self.end - start:
            self.fail(f"{what} of {length} bytes does not fit in the {self.left} that are left")
        self.position = start + length
        return start

    def array(self, code: str, what: str) -> tuple[Any, ...]:
        """Read a count and fixed-width little-endian numbers; `code` is that of `struct`."""
        width = struct.calcsize(f"<{code}")
        return self.numbers(self.count(what, width), code, what)

    def numbers(self, count: int, code: str, what: str) -> tuple[Any, ...]:
        """Read `count` fixed-width little-endian numbers."""
        width = struct.calcsize(f"<{code}")
        start = self.take(count * width, what)
        return struct.unpack_from(f"<{count}{code}", self.data, start)

    def align(self, alignment: int, origin: int = 0) -> None:
        """Skip padding, so that the distance from `origin` is a multiple of `alignment`."""
        self.take(-(self.position - origin) % alignment, "padding")
