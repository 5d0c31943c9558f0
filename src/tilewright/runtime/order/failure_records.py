"""Failure records: sixteen words that a kernel can write and the host can read at any time.

A slot is reused only when the last reference to its record is gone; the outcome of an operation
holds the record until the operation has completed. Dropping a record takes no lock, so a finaliser
may do it.
"""

from __future__ import annotations

import queue
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["RECORD_WORDS", "Allocation", "FailureRecord", "RecordPool", "Slot"]

RECORD_WORDS = 16  # i32; zero in the first word means "no failure"


class Allocation(Protocol):
    """Memory of a device."""

    @property
    def address(self) -> int:
        """Its start in the device's address space."""


class Slot(NamedTuple):
    """One record: the words as the host sees them, and the memory as a kernel does."""

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
        """The memory of its slot."""
        return self._slot.allocation

    @property
    def address(self) -> int:
        """Its address in a kernel."""
        return self._slot.allocation.address

    def read(self) -> tuple[int, ...]:
        """The current words."""
        return tuple(int(word) for word in self._slot.words)

    def reset(self) -> None:
        """Set the record to "no failure"."""
        self._slot.words[:] = 0

    def __del__(self) -> None:
        self._free.put(self._slot)


class RecordPool(ABC):
    """Records of one device; a backend allocates the slots."""

    def __init__(self) -> None:
        self._free: queue.SimpleQueue[Slot] = queue.SimpleQueue()

    @abstractmethod
    def make_slots(self) -> Iterable[Slot]:
        """New slots, all zero."""

    def take(self) -> FailureRecord:
        """A record set to "no failure". The device's lock is held."""
        if self._free.empty():
            for slot in self.make_slots():
                self._free.put(slot)
        record = FailureRecord(self._free.get_nowait(), self._free)
        if record.read()[0]:  # written by failures only
            record.reset()
        return record
