"""An independent reader of the container, for tests of the writer."""

from __future__ import annotations


def read_sections(data: bytes) -> dict[int, bytes]:
    """The payloads of a file by the numbers of their sections."""
    assert data[:8] == b"\x7fTileIR\0"
    found: dict[int, bytes] = {}
    place = 12
    while data[place] != 0:
        number, place = data[place], place + 1
        length, place = read_varint(data, place)
        if number & 0x80:
            alignment, place = read_varint(data, place)
            place += -place % alignment
        found[number & 0x7F] = data[place : place + length]
        place += length
    assert place == len(data) - 1
    return found


def read_table(payload: bytes, width: int) -> list[bytes]:
    """The items of a table whose offsets have that many bytes."""
    count, place = read_varint(payload, 0)
    place += -place % width
    starts = [
        int.from_bytes(payload[place + width * i : place + width * (i + 1)], "little")
        for i in range(count)
    ]
    items = payload[place + width * count :]
    return [items[a:b] for a, b in zip(starts, [*starts[1:], len(items)], strict=True)]


def read_varint(data: bytes, place: int) -> tuple[int, int]:
    """A number, and where it ends."""
    value = shift = 0
    while True:
        byte, place = data[place], place + 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, place
