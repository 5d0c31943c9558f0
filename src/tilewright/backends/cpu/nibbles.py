"""4-bit elements in memory: two share a byte, the first one in the low half.

A place is an offset in nibbles from the start of a memory. Tiles hold one element for each byte.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.runtime.devices.process import ForkedLock

__all__ = ["join", "read", "split", "write"]

Array = np.ndarray[Any, Any]

# A write changes half of a byte, so it is a read-modify-write.
_WRITING = ForkedLock()


def read(memory: Array, at: Array) -> Array:
    """Return the bits at places, one element for each byte."""
    found: Array = (memory[at // 2] >> (4 * (at & 1)).astype(np.uint8)) & np.uint8(15)
    return found


def write(memory: Array, at: Array, elements: Array) -> None:
    """Set the bits at places."""
    with _WRITING:
        for half in (0, 1):
            chosen = (at & 1) == half
            where = at[chosen] // 2
            kept = memory[where] & np.uint8(0x0F if half else 0xF0)
            memory[where] = kept | (elements[chosen] & np.uint8(15)) << np.uint8(4 * half)


def join(elements: Array) -> Array:
    """Pack neighbours along the last axis into one byte each."""
    bits = elements & np.uint8(15)
    joined: Array = bits[..., 0::2] | bits[..., 1::2] << np.uint8(4)
    return joined


def split(joined: Array) -> Array:
    """Unpack the two halves of each byte along the last axis; the inverse of `join`."""
    halves = np.stack((joined & np.uint8(15), joined >> np.uint8(4)), axis=-1)
    return halves.reshape(*joined.shape[:-1], -1)
