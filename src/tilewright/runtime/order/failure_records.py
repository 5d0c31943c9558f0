"""Failure records: sixteen words that a kernel can write and the host can read at any time.

A slot is used again only when the last reference to its record is gone; the outcome of an
operation holds the record until the operation has completed. Dropping one takes no lock, so it may
happen in a finaliser.
"""

from __future__ import annotations

import queue
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["RECORD_WORDS", "Allocation", "FailureRecord", "RecordPool", "Slot"]

RECORD_WORDS = 16  # i32; zero in the first says "no failure"


class Allocation(Protocol):
    """Memory of a device."""

    @property
    def address(self) -> int:
        """Where it starts, in the device's address space."""


class Slot(NamedTuple):
    """The words as the host sees them, and the memory as a kernel does."""

    words: npt.NDArray[np.int32]
    allocation: Allocation


class FailureRecord:
    """The record of one operation."""

    __slots__ = ("_free", "_slot")

    def __init__(self, slot: Slot, free: queue.SimpleQueue[Slot]) -> None:
        self._slot = slot
        self._free = free

    @property
    def allocation(self) -> Allocation:
        """The memory it lies in."""
        return self._slot.allocation

    @property
    def address(self) -> int:
        """Where a kernel finds it."""
        return self._slot.allocation.address

    def read(self) -> tuple[int, ...]:
        """The words as they are now."""
        return tuple(int(word) for word in self._slot.words)

    def reset(self) -> None:
        """Make it say "no failure" again."""
        self._slot.words[:] = 0

    def __del__(self) -> None:
        self._free.put(self._slot)


class RecordPool(ABC):
    """Records of one device; a backend says where new ones come from."""

    def __init__(self) -> None:
        self._free: queue.SimpleQueue[Slot] = queue.SimpleQueue()

    @abstractmethod
    def make_slots(self) -> Iterable[Slot]:
        """Some more slots, all zero."""

    def take(self) -> FailureRecord:
        """A record that says "no failure". The device's lock is held."""
        if self._free.empty():
            for slot in self.make_slots():
                self._free.put(slot)
        record = FailureRecord(self._free.get_nowait(), self._free)
        if record.read()[0]:  # on the good path nothing is ever written
            record.reset()
        return record
