"""Staging buffers: pinned host memory for copies to a GPU and back.

A copy between a GPU and pinned memory is asynchronous; with pageable memory the driver blocks the
calling thread until its stream reaches the copy. Sizes are powers of two, and a buffer is reused
when its last array is gone: dropping an array takes no lock and makes no driver call. Contents
larger than a buffer, or beyond the limit, are copied from pageable memory.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator

import numpy as np

from tilewright.backends.cuda.driver import Driver
from tilewright.errors import DriverError
from tilewright.runtime.devices.backend import Bytes

__all__ = ["Staging"]

_SMALLEST, _LARGEST = 1 << 12, 1 << 25  # bytes of a buffer
_AT_A_TIME = 1 << 18  # bytes allocated at once, if a buffer is smaller
_MOST = 1 << 28  # bytes in all


class Staging:
    """The pinned memory of one GPU."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._lock = threading.RLock()  # reentrant: a finaliser may run while it is held
        self._left = _MOST
        self._free: dict[int, queue.SimpleQueue[int]] = {
            size: queue.SimpleQueue() for size in _sizes()
        }

    def take(self, nbytes: int) -> Bytes | None:
        """Return a buffer, owned by the caller while referenced, or None if none is free.

        Any thread may call this.
        """
        size = max(_SMALLEST, 1 << max(nbytes - 1, 0).bit_length())
        free = self._free.get(size)
        if free is None:
            return None
        if free.empty():
            self._make(size, free)
        try:
            piece = _Piece(free.get_nowait(), size, free)
        except queue.Empty:  # the limit is reached, or another thread took it
            return None
        return np.asarray(piece)[:nbytes]

    def _make(self, size: int, free: queue.SimpleQueue[int]) -> None:
        wanted = max(size, _AT_A_TIME)
        with self._lock:
            if wanted > self._left:
                return
            try:
                start, _ = self._driver.allocate_pinned(wanted)
            except DriverError:  # the host has no memory left to pin
                return
            self._left -= wanted
        for place in range(0, wanted, size):
            free.put(start + place)


class _Piece:
    """A buffer in use; NumPy keeps it alive for its arrays."""

    __slots__ = ("__array_interface__", "_address", "_free")

    def __init__(self, address: int, size: int, free: queue.SimpleQueue[int]) -> None:
        self._address = address
        self._free = free
        self.__array_interface__ = {
            "version": 3, "typestr": "|u1", "shape": (size,), "data": (address, False),
        }  # fmt: skip

    def __del__(self) -> None:
        self._free.put(self._address)


def _sizes() -> Iterator[int]:
    size = _SMALLEST
    while size <= _LARGEST:
        yield size
        size *= 2
