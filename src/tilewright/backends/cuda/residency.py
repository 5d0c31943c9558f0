"""Occupancy: the number of a kernel's blocks that fit a multiprocessor at once.

No driver is queried, so the target may be a GPU of another machine.
"""

from __future__ import annotations

from tilewright.backends.cuda.cubin import Resources
from tilewright.ir.architectures import REGISTERS, SYSTEM_SHARED, find_architecture

__all__ = ["blocks_at_once"]

_TOGETHER = 8  # granularity of the registers of a thread
_WARP = 32  # granularity of the threads of a block


def blocks_at_once(kernel: Resources, target: str) -> int | None:
    """Return the number of resident blocks, possibly 0, or None if it cannot be computed."""
    has = find_architecture(target)
    if has is None or not kernel.threads:
        return None
    threads = _rounded(kernel.threads, _WARP)
    registers = _rounded(max(kernel.registers, 1), _TOGETHER) * threads
    shared = kernel.shared_memory + SYSTEM_SHARED
    return min(REGISTERS // registers, has.shared_memory // shared, has.threads // threads)


def _rounded(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
