"""Files of bytecode with something wrong in them, and what the reader makes of them.

A mutation is drawn from a `random.Random`, so a seed and a number name a file. The reader may
refuse a file or read it; it may not raise anything else, and not take long.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from bytecode_container import (
    HAS_ALIGNMENT,
    HEADER,
    framed,
    number_at,
    sections_of,
    varint,
)

from tilewright.bytecode import decode
from tilewright.errors import MalformedBytecodeError
from tilewright.ir.function import Module

MOST_SECONDS = 1.0  # for one file
_EDGES = (0x00, 0x01, 0x02, 0x7F, 0x80, 0xFE, 0xFF)
_NUMBERS = (0, 1, 127, 128, 2**14, 2**21, 2**31 - 1, 2**32, 2**63, 2**64 - 1, 2**64, 2**70)


@dataclass
class Outcome:
    """What became of many files."""

    read: int = 0
    refused: int = 0
    slowest: float = 0.0
    reasons: Counter[str] = field(default_factory=Counter)  # the beginnings of the refusals


@dataclass(frozen=True)
class Finding:
    """A file that the reader did not take as it must take any."""

    number: int
    data: bytes
    problem: str


def mutations(files: Sequence[bytes], seed: int, count: int) -> Iterator[bytes]:
    """Mutated files, one to three mutations each: of the whole file, or inside one section."""
    for number in range(count):
        source = random.Random(f"{seed}:{number}")
        data = source.choice(files)
        yield (
            _mutated(data, source, files) if source.random() < 0.3 else _within(data, source, files)
        )


def _mutated(data: bytes, source: random.Random, files: Sequence[bytes]) -> bytes:
    changed = bytearray(data)
    for _ in range(source.choice((1, 1, 2, 3))):
        source.choice(_MUTATIONS)(changed, source, files)
    return bytes(changed)


def _within(data: bytes, source: random.Random, files: Sequence[bytes]) -> bytes:
    """Mutate what a section holds and put the file together again, so that its frame is right."""
    sections = sections_of(data)
    chosen = source.randrange(len(sections))
    held = sections[chosen]
    sections[chosen] = replace(held, payload=_mutated(held.payload, source, files))
    return framed(data[:HEADER], sections)


def run(
    mutated: Iterator[bytes], use: Callable[[Module], object] = lambda module: None
) -> tuple[Outcome, list[Finding]]:
    """Read every file, and use what can be read."""
    outcome, findings = Outcome(), []
    for number, data in enumerate(mutated):
        started = time.process_time()
        try:
            use(decode(data).module)
            outcome.read += 1
        except MalformedBytecodeError as error:
            outcome.refused += 1
            outcome.reasons[" ".join(error.reason.split()[:3])] += 1
            if not 0 <= error.offset <= len(data):
                findings.append(Finding(number, data, f"offset {error.offset}"))
        except Exception as error:  # noqa: BLE001 (what is looked for)
            findings.append(Finding(number, data, repr(error)))
        taken = time.process_time() - started
        outcome.slowest = max(outcome.slowest, taken)
        if taken > MOST_SECONDS:
            findings.append(Finding(number, data, f"{taken:.1f} s"))
    return outcome, findings


# --- mutations ------------------------------------------------------------------------------------


def _flip_bits(data: bytearray, source: random.Random, _files: Sequence[bytes]) -> None:
    for _ in range(source.choice((1, 1, 1, 2, 8))):
        if data:
            data[source.randrange(len(data))] ^= 1 << source.randrange(8)


def _set_bytes(data: bytearray, source: random.Random, _files: Sequence[bytes]) -> None:
    for _ in range(source.choice((1, 1, 2, 4))):
        if data:
            value = source.choice((*_EDGES, source.randrange(256)))
            data[source.randrange(len(data))] = value


def _truncate(data: bytearray, source: random.Random, _files: Sequence[bytes]) -> None:
    del data[source.randrange(len(data) + 1) :]


def _remove(data: bytearray, source: random.Random, _files: Sequence[bytes]) -> None:
    start = source.randrange(len(data) + 1)
    del data[start : start + source.choice((1, 1, 2, 4, 16, 64))]


def _insert(data: bytearray, source: random.Random, _files: Sequence[bytes]) -> None:
    start = source.randrange(len(data) + 1)
    data[start:start] = source.randbytes(source.choice((1, 1, 2, 4, 16)))


def _splice(data: bytearray, source: random.Random, files: Sequence[bytes]) -> None:
    """Put a piece of a file, perhaps the same, in place of another piece."""
    other = source.choice(files)
    length = source.choice((1, 2, 4, 8, 32, 128))
    start, place = source.randrange(len(other)), source.randrange(len(data) + 1)
    data[place : place + source.choice((0, length))] = other[start : start + length]


def _set_length(data: bytearray, source: random.Random, _files: Sequence[bytes]) -> None:
    """Put another number where the length of a section, or the count of its items, stands."""
    places = _lengths(bytes(data))
    place = source.choice(places) if places else source.randrange(len(data) + 1)
    number = source.choice((*_NUMBERS, source.randrange(300)))
    data[place : place + 1] = varint(number)


_MUTATIONS: tuple[Callable[[bytearray, random.Random, Sequence[bytes]], None], ...] = (
    _flip_bits, _set_bytes, _truncate, _remove, _insert, _splice, _set_length,
)  # fmt: skip


def _lengths(data: bytes) -> list[int]:
    """Where the sections say how long they are and how many items they have."""
    places: list[int] = []
    place = HEADER
    while place < len(data) and data[place]:
        has_alignment, place = data[place] & HAS_ALIGNMENT, place + 1
        places.append(place)
        length, place = number_at(data, place)
        if has_alignment:
            places.append(place)
            alignment, place = number_at(data, place)
            place += -place % (alignment or 1)
        places.append(place)
        place += length
    return [place for place in places if place < len(data)]
