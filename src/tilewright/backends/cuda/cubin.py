"""Resources of a cubin's kernels: registers, shared memory, memory for spills, threads.

A cubin is an ELF file; this module reads section sizes and the attributes that ptxas records for
the driver. It neither loads nor checks code.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from tilewright.errors import ToolchainError
from tilewright.ir.architectures import SYSTEM_SHARED

__all__ = ["Resources", "cubin_resources"]

_SHARED = ".nv.shared."
_RESERVED = ".nv.shared.reserved.0"  # only where a kernel has shared memory
_TEXT = ".text."
_INFO = ".nv.info"
_SYMBOLS = ".symtab"
_FRAME_SIZE, _REGISTERS = 0x11, 0x2F  # codes of attributes in `.nv.info`
_THREADS = 0x10  # and of one in a kernel's own: the extents of a block
_SIZED = 4  # format of an attribute with a length


@dataclass(frozen=True)
class Resources:
    """Resources of one kernel."""

    kernel: str
    registers: int  # per thread
    shared_memory: int  # bytes per block, statically allocated: the pipeline's stages
    stack_bytes: int  # per thread: spills and local arrays
    threads: int = 0  # per block; 0 if the cubin does not state it


@dataclass(frozen=True)
class ElfSection:
    """One section of an ELF file."""

    name: str
    offset: int
    size: int
    link: int


def cubin_resources(cubin: bytes) -> dict[str, Resources]:
    """Return the resources of each kernel of a cubin, by name."""
    if cubin[:5] != b"\x7fELF\x02":
        raise ToolchainError("this is no cubin: a 64-bit ELF file is expected")
    sections = _sections(cubin)
    by_name = {section.name: section for section in sections}
    noted: dict[tuple[int, str], int] = {}
    if _INFO in by_name and _SYMBOLS in by_name:
        symbols = _symbol_names(cubin, by_name[_SYMBOLS], sections)
        for attribute, (symbol, *values) in _attributes(cubin, by_name[_INFO]):
            if len(values) == 1:
                noted[attribute, symbols[symbol]] = values[0]
    kernels = [name.removeprefix(_TEXT) for name in by_name if name.startswith(_TEXT)]
    return {
        name: Resources(
            kernel=name,
            registers=noted.get((_REGISTERS, name), 0),
            shared_memory=_shared_memory(name, by_name),
            stack_bytes=noted.get((_FRAME_SIZE, name), 0),
            threads=_threads(cubin, by_name.get(f"{_INFO}.{name}")),
        )
        for name in kernels
    }


def _shared_memory(kernel: str, by_name: dict[str, ElfSection]) -> int:
    """Return the bytes of a kernel; its section includes those of the system where it has some."""
    section = by_name.get(_SHARED + kernel)
    if section is None:
        return 0
    return section.size - (SYSTEM_SHARED if _RESERVED in by_name else 0)


def _sections(cubin: bytes) -> list[ElfSection]:
    (start,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", cubin, start + i * size) for i in range(count)]
    name_table = headers[names][4]
    return [
        ElfSection(_text_at(cubin, name_table + header[0]), header[4], header[5], header[6])
        for header in headers
    ]


def _symbol_names(cubin: bytes, table: ElfSection, sections: list[ElfSection]) -> list[str]:
    names = sections[table.link].offset
    starts = range(table.offset, table.offset + table.size, 24)
    return [_text_at(cubin, names + struct.unpack_from("<I", cubin, at)[0]) for at in starts]


def _threads(cubin: bytes, info: ElfSection | None) -> int:
    """Return the threads of a block, if the cubin fixes their number."""
    if info is None:
        return 0
    blocks = (values for attribute, values in _attributes(cubin, info) if attribute == _THREADS)
    return prod(next(blocks, (0,)))


def _attributes(cubin: bytes, info: ElfSection) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Iterate over the attributes that carry numbers, with their numbers."""
    at, end = info.offset, info.offset + info.size
    while at < end:
        form, attribute, length = struct.unpack_from("<BBH", cubin, at)
        at += 4
        if form == _SIZED:
            if length and length % 4 == 0:
                yield attribute, struct.unpack_from(f"<{length // 4}I", cubin, at)
            at += length


def _text_at(data: bytes, start: int) -> str:
    return data[start : data.index(b"\0", start)].decode()
