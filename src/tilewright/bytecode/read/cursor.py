"""Reading bytes that may be anything: every length is held against what is left.

A `Cursor` walks over a window of the file and knows its place in the whole, so that an error names
the byte. Nothing here knows what the numbers mean.
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
    """A place in the bytes, and the end of the part that may be read."""

    __slots__ = ("data", "end", "position")

    def __init__(self, data: bytes, position: int, end: int) -> None:
        self.data = data
        self.position = position
        self.end = end

    @property
    def left(self) -> int:
        """How many bytes can still be read."""
        return self.end - self.position

    def fail(self, reason: str, at: int | None = None) -> NoReturn:
        """Refuse the file because of what stands at the current place, or at another."""
        raise MalformedBytecodeError(reason, self.position if at is None else at)

    def fail_number(self, reason: str) -> NoReturn:
        """Refuse the file because of the number that was read last."""
        start = self.position - 1
        while (
            start > 0 and self.data[start - 1] >= 0x80 and self.position - start < _LONGEST_VARINT
        ):
            start -= 1
        self.fail(reason, start)

    def byte(self) -> int:
        """One byte."""
        position = self.position
        if position >= self.end:
            self.fail("the data ends where a byte is needed")
        self.position = position + 1
        return self.data[position]

    def varint(self) -> int:
        """An unsigned number of at most 64 bits, seven bits a byte, least first."""
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
        """Several numbers one after the other."""
        end = self.position + count
        if end <= self.end:
            run = self.data[self.position : end]
            if run.isascii():  # each is one byte, and mostly they are
                self.position = end
                return run
        return [self.varint() for _ in range(count)]

    def signed(self) -> int:
        """A 64-bit signed number, folded so that small magnitudes are short."""
        folded = self.varint()
        return folded >> 1 ^ -(folded & 1)

    def pattern(self) -> int:
        """A signed number as its 64 bits."""
        return self.signed() & _LIMIT - 1

    def count(self, what: str, least: int = 1) -> int:
        """A number of things of at least `least` bytes each, which must all fit in what is left."""
        start = self.position
        number = self.varint()
        if number * least > self.end - self.position:
            self.fail(f"{number} {what} do not fit in the {self.left} bytes that are left", start)
        return number

    def take(self, length: int, what: str) -> int:
        """Skip a run of bytes; gives where it starts."""
        start = self.position
        if length > self.end - start:
            self.fail(f"{what} of {length} bytes does not fit in the {self.left} that are left")
        self.position = start + length
        return start

    def array(self, code: str, what: str) -> tuple[Any, ...]:
        """A counted array of fixed-width little-endian numbers; `code` is one of `struct`'s."""
        width = struct.calcsize(f"<{code}")
        return self.numbers(self.count(what, width), code, what)

    def numbers(self, count: int, code: str, what: str) -> tuple[Any, ...]:
        """Fixed-width little-endian numbers, `count` of them."""
        width = struct.calcsize(f"<{code}")
        start = self.take(count * width, what)
        return struct.unpack_from(f"<{count}{code}", self.data, start)

    def align(self, alignment: int, origin: int = 0) -> None:
        """Skip padding, so that the distance from `origin` is a multiple of `alignment`."""
        self.take(-(self.position - origin) % alignment, "padding")
