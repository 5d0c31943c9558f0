"""Files of bytecode put together byte by byte, which no writer would write."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import pytest
from bytecode_container import HEADER, SectionBytes, framed, sections_of, varint

from tilewright.bytecode import decode
from tilewright.errors import MalformedBytecodeError

STRINGS, FUNCTIONS, DEBUG, CONSTANTS, TYPES = 1, 2, 3, 4, 5
RETURN = bytes((0x5C, 0, 0))
ENTRY = bytes((1, 0, 0, 2, 0))  # one function: name 0, type 0, an entry, no locations
PLACE = bytes((4, 0, 0, 12, 7))  # in scope 0, file "f", line 12, column 7


def refused(data: bytes) -> MalformedBytecodeError:
    """Why and where a file is refused."""
    with pytest.raises(MalformedBytecodeError) as caught:
        decode(data)
    assert 0 <= caught.value.offset <= len(data)
    return caught.value


def changed(data: bytes, number: int, change: Callable[[bytes], bytes]) -> bytes:
    """A file with another payload of one section."""
    sections = [
        SectionBytes(
            s.identity, s.alignment, change(s.payload) if s.number == number else s.payload
        )
        for s in sections_of(data)
    ]
    return framed(data[:HEADER], sections)


def table(items: Sequence[bytes], code: str = "I") -> bytes:
    """A section that is a table."""
    width = struct.calcsize(code)
    head = varint(len(items))
    head += bytes(-len(head) % width)
    offsets = [sum(map(len, items[:n])) for n in range(len(items))]
    return head + struct.pack(f"<{len(items)}{code}", *offsets) + b"".join(items)


def hand_made(
    body: bytes = RETURN,
    types: Sequence[bytes] = (b"\x10\x00\x00",),
    *,
    functions: bytes | None = None,
    version: bytes = b"\x0d\x03",
    strings: Sequence[bytes] = (b"f",),
    constants: Sequence[bytes] = (),
) -> bytes:
    """A file made by hand: one entry `f` of type 0, unless told otherwise."""
    if functions is None:
        functions = ENTRY + varint(len(body)) + body
    sections = [
        SectionBytes(0x80 | FUNCTIONS, 8, functions),
        SectionBytes(0x80 | TYPES, 4, table(types)),
        SectionBytes(0x80 | STRINGS, 4, table(strings)),
    ]
    if constants:
        sections.append(SectionBytes(0x80 | CONSTANTS, 8, table(constants, "Q")))
    return framed(b"\x7fTileIR\x00" + version + b"\x00\x00", sections)


def at_piece(data: bytes, piece: bytes) -> int:
    """Where something stands that stands nowhere else."""
    assert data.count(piece) == 1
    return data.index(piece)


def debug_section(
    attributes: Sequence[bytes], indices: Sequence[int], starts: Sequence[int] = (0,)
) -> bytes:
    """A debug section: its attributes, the places of all lists, and where each list starts."""
    payload = varint(len(starts))
    payload += bytes(-len(payload) % 4) + struct.pack(f"<{len(starts)}I", *starts)
    payload += varint(len(indices))
    payload += bytes(-len(payload) % 8) + struct.pack(f"<{len(indices)}Q", *indices)
    return payload + table(attributes)


def located(debug: bytes, number: int = 1) -> bytes:
    """A file whose entry has the list of that number of a debug section."""
    functions = bytes((1, 0, 0, 2, number)) + varint(len(RETURN)) + RETURN
    data = hand_made(functions=functions)
    sections = [*sections_of(data), SectionBytes(0x80 | DEBUG, 8, debug)]
    return framed(data[:HEADER], sections)
