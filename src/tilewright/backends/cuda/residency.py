"""How many blocks of a kernel a multiprocessor takes at once: its registers, memory and threads.

The numbers of each architecture are those of the CUDA programming guide. Nothing is asked of a
driver, so that it can be told of a GPU that is not here.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.backends.cuda.cubin import Resources

__all__ = ["REGISTER_BYTES", "blocks_at_once", "shared_memory_of"]

_REGISTERS = 64 << 10  # of every multiprocessor since long ago
# Bytes of the register file of a multiprocessor: each register holds four.
REGISTER_BYTES = 4 * _REGISTERS
_TOGETHER = 8  # registers of a thread are given out in so many
_WARP = 32  # threads, likewise
_OWN_SHARED = 1 << 10  # bytes that each block takes for the system


@dataclass(frozen=True)
class Multiprocessor:
    """What blocks share."""

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
    """Bytes of shared memory of a multiprocessor; None for a target that is not in the table."""
    has = _MULTIPROCESSORS.get(target)
    return None if has is None else has.shared_memory


def blocks_at_once(kernel: Resources, target: str) -> int | None:
    """How many fit, which may be none at all; None if too little is known to say."""
    has = _MULTIPROCESSORS.get(target)
    if has is None or not kernel.threads:
        return None
    threads = _rounded(kernel.threads, _WARP)
    registers = _rounded(max(kernel.registers, 1), _TOGETHER) * threads
    shared = kernel.shared_memory + _OWN_SHARED
    return min(_REGISTERS // registers, has.shared_memory // shared, has.threads // threads)


def _rounded(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
