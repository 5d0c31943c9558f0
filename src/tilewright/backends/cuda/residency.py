"""Occupancy: the number of a kernel's blocks that fit a multiprocessor at once.

The limits of each architecture are those of the CUDA programming guide. No driver is queried, so
the target may be a GPU of another machine.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.backends.cuda.cubin import Resources

__all__ = ["REGISTER_BYTES", "blocks_at_once", "shared_memory_of"]

_REGISTERS = 64 << 10  # of a multiprocessor, on all supported architectures
# Bytes of the register file of a multiprocessor: each register holds four.
REGISTER_BYTES = 4 * _REGISTERS
_TOGETHER = 8  # granularity of the registers of a thread
_WARP = 32  # granularity of the threads of a block
_OWN_SHARED = 1 << 10  # bytes that the system reserves for each block


@dataclass(frozen=True)
class Multiprocessor:
    """Resources that resident blocks share."""

    shared_memory: int  # bytes
    threads: int


_LARGE = Multiprocessor(228 << 10, 2048)
_SMALL = Multiprocessor(100 << 10, 1536)
_MULTIPROCESSORS = {
    "sm_80": Multiprocessor(164 << 10, 2048),
    "sm_86": _SMALL,
    "sm_87": Multiprocessor(164 << 10, 1536),
    "sm_89": _SMALL,
    "sm_90": _LARGE,
    "sm_100": _LARGE,
    "sm_103": _LARGE,
    "sm_110": Multiprocessor(228 << 10, 1536),
    "sm_120": _SMALL,
    "sm_121": _SMALL,
}


def shared_memory_of(target: str) -> int | None:
    """Return a multiprocessor's bytes of shared memory, or None for an unknown target."""
    has = _MULTIPROCESSORS.get(target)
    return None if has is None else has.shared_memory


def blocks_at_once(kernel: Resources, target: str) -> int | None:
    """Return the number of resident blocks, possibly 0, or None if it cannot be computed."""
    has = _MULTIPROCESSORS.get(target)
    if has is None or not kernel.threads:
        return None
    threads = _rounded(kernel.threads, _WARP)
    registers = _rounded(max(kernel.registers, 1), _TOGETHER) * threads
    shared = kernel.shared_memory + _OWN_SHARED
    return min(_REGISTERS // registers, has.shared_memory // shared, has.threads // threads)


def _rounded(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
