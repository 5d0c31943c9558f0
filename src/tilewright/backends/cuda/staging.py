"""Pinned host memory through which contents go to a GPU and come back.

A copy between a GPU and pinned memory is queued like anything else; with memory of another kind the
driver keeps the calling thread until its stream has got there. Pieces have sizes that are powers of
two and are used again when the last array on them is gone: dropping one takes no lock and calls no
driver. Not for contents that are larger than a piece, or when there is no room left: those take the
driver's own way.
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

_SMALLEST, _LARGEST = 1 << 12, 1 << 25  # bytes of a piece
_AT_A_TIME = 1 << 18  # bytes that are asked for, if a piece is smaller
_MOST = 1 << 28  # bytes in all


class Staging:
    """The pinned memory of one GPU."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._lock = threading.RLock()  # a finaliser may run while it is held, and ask as well
        self._left = _MOST
        self._free: dict[int, queue.SimpleQueue[int]] = {
            size: queue.SimpleQueue() for size in _sizes()
        }

    def take(self, nbytes: int) -> Bytes | None:
        """Memory for some contents, the caller's as long as it refers to it; None if there is none.

        Any thread may ask.
        """
        size = max(_SMALLEST, 1 << max(nbytes - 1, 0).bit_length())
        free = self._free.get(size)
        if free is None:
            return None
        if free.empty():
            self._make(size, free)
        try:
            piece = _Piece(free.get_nowait(), size, free)
        except queue.Empty:  # there is no room, or others were faster
            return None
        return np.asarray(piece)[:nbytes]

    def _make(self, size: int, free: queue.SimpleQueue[int]) -> None:
        wanted = max(size, _AT_A_TIME)
        with self._lock:
            if wanted > self._left:
                return
            try:
                start, _ = self._driver.allocate_pinned(wanted)
            except DriverError:  # the host has no memory that it could pin
                return
            self._left -= wanted
        for place in range(0, wanted, size):
            free.put(start + place)


class _Piece:
    """A piece in use; NumPy keeps it for its arrays."""

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
