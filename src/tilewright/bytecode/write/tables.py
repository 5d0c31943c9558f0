"""Numbered tables of the container: strings, types, constants and debug attributes.

Items are numbered in the order of their first use, so that equal modules give equal bytes.
"""

from __future__ import annotations

import struct

from tilewright.bytecode.write.stream import ByteStream
from tilewright.bytecode.write.types import BytecodeType, components, write_type
from tilewright.ir.op import Version

__all__ = ["NumberedTable", "StringTable", "TypeTable"]


class NumberedTable:
    """Byte strings, each stored once under its index."""

    def __init__(self, *, first: int = 0, offset_code: str = "I") -> None:
        self._numbers: dict[bytes, int] = {}
        self._first = first
        self._offset_code = offset_code

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, item: bytes) -> int:
        """Return the index of an item, which is added if it is new."""
        return self._numbers.setdefault(item, self._first + len(self._numbers))

    def section(self) -> bytes:
        """Return the count, the offset of each item, then the items."""
        stream = ByteStream()
        stream.put_varint(len(self._numbers))
        stream.pad_to(struct.calcsize(self._offset_code))
        offset = 0
        for item in self._numbers:
            stream += struct.pack(f"<{self._offset_code}", offset)
            offset += len(item)
        return bytes(stream + b"".join(self._numbers))


class StringTable(NumberedTable):
    """Strings, in UTF-8."""

    def text(self, text: str) -> int:
        """Return the index of a string."""
        return self.number(text.encode())


class TypeTable(NumberedTable):
    """Types. The components of a type are numbered before the type itself."""

    def __init__(self, version: Version) -> None:
        super().__init__()
        self._version = version
        self._known: dict[BytecodeType, int] = {}

    def type(self, type_: BytecodeType) -> int:
        """Return the index of a type."""
        found = self._known.get(type_)
        if found is None:
            parts = tuple(self.type(part) for part in components(type_))
            found = self.number(write_type(type_, parts, self._version))
            self._known[type_] = found
        return found
