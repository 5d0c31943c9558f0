"""Primitives of Tile IR bytecode: varints, fixed-width arrays, padding.

Each primitive of the format is a method of `ByteStream`; the writers interpret the numbers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

__all__ = ["PAD_BYTE", "ByteStream"]

PAD_BYTE = 0xCB  # readers skip padding; this value is easy to see in a dump
_MASK_64 = (1 << 64) - 1


class ByteStream(bytearray):
    """A growing byte string."""

    def put_varint(self, value: int) -> None:
        """Write a varint: unsigned, at most 64 bits, seven bits a byte, least first."""
        assert 0 <= value <= _MASK_64, value
        while value >= 0x80:
            self.append(value & 0x7F | 0x80)
            value >>= 7
        self.append(value)

    def put_signed(self, value: int) -> None:
        """Write a 64-bit signed varint, zigzag-encoded so that small magnitudes are short.

        Zigzag is defined on 64 bits: bit patterns with the top bit set count as negative.
        """
        value = (value & _MASK_64) - ((value & 1 << 63) << 1)
        self.put_varint(((value << 1) ^ (value >> 63)) & _MASK_64)

    def put_array(self, values: Iterable[int], code: str) -> None:
        """Write a count and fixed-width little-endian numbers; `code` is that of `struct`."""
        items = tuple(values)
        self.put_varint(len(items))
        self += struct.pack(f"<{len(items)}{code}", *items)

    def pad_to(self, alignment: int) -> None:
        """Pad the length to a multiple of `alignment`."""
        self += bytes([PAD_BYTE]) * (-len(self) % alignment)
