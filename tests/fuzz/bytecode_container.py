"""The frame of a file of bytecode, taken apart and put together without our reader and writer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

HEADER = 12  # bytes before the first section
HAS_ALIGNMENT = 0x80  # in the number of a section


@dataclass(frozen=True)
class SectionBytes:
    """One section; its number says whether it is aligned."""

    identity: int
    alignment: int
    payload: bytes

    @property
    def number(self) -> int:
        return self.identity & ~HAS_ALIGNMENT


def sections_of(data: bytes) -> list[SectionBytes]:
    """The sections of a file whose frame is right."""
    sections = []
    place = HEADER
    while data[place]:
        identity, alignment = data[place], 1
        length, place = number_at(data, place + 1)
        if identity & HAS_ALIGNMENT:
            alignment, place = number_at(data, place)
            place += -place % alignment
        sections.append(SectionBytes(identity, alignment, data[place : place + length]))
        place += length
    return sections


def payloads_of(data: bytes) -> dict[int, bytes]:
    """The payloads of a file by the numbers of their sections."""
    return {section.number: section.payload for section in sections_of(data)}


def items_of(payload: bytes, width: int) -> list[bytes]:
    """The items of a table whose offsets have that many bytes."""
    count, place = number_at(payload, 0)
    place += -place % width
    starts = [
        int.from_bytes(payload[place + width * i : place + width * (i + 1)], "little")
        for i in range(count)
    ]
    items = payload[place + width * count :]
    return [items[a:b] for a, b in zip(starts, [*starts[1:], len(items)], strict=True)]


def framed(header: bytes, sections: Iterable[SectionBytes]) -> bytes:
    """A file of these sections."""
    data = bytearray(header)
    for section in sections:
        data += bytes([section.identity]) + varint(len(section.payload))
        if section.identity & HAS_ALIGNMENT:
            data += varint(section.alignment)
            data += bytes(-len(data) % section.alignment)
        data += section.payload
    return bytes([*data, 0])


def varint(value: int) -> bytes:
    """A number as the format writes it, of any size."""
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def number_at(data: bytes, place: int) -> tuple[int, int]:
    """The number at a place, and where it ends; the end of the data ends it too."""
    value = shift = 0
    while place < len(data):
        value |= (data[place] & 0x7F) << shift
        shift, place = shift + 7, place + 1
        if data[place - 1] < 0x80:
            break
    return value, place
