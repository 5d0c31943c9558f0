"""A device without memory: kernels are specialised, checked and compiled for it, and never run.

Its ordinal is the target: `meta:90` stands for sm_90, and plain `meta` for the CPU. Kernels
compiled for it enter the cache on disk as usual, so one machine can prepare for another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from tilewright.errors import LaunchError
from tilewright.runtime.devices.backend import PoolStatistics
from tilewright.runtime.order.failure import RECORD_WORDS, FailureRecord, RecordPool, Slot

__all__ = ["MetaBackend", "MetaPool", "missing", "open_device"]


class MetaPool:
    """An empty pool."""

    def statistics(self) -> PoolStatistics:
        """Return zeros: no memory is in use."""
        return PoolStatistics(0, 0, 0, 0)

    def trim(self, keep: int) -> None:
        """Do nothing: there is no memory to release."""

    def reset_highest(self) -> None:
        """Do nothing: there is no high-water mark."""


@dataclass(frozen=True)
class _Nowhere:
    address: int = 0


class _MetaRecords(RecordPool):
    def make_slots(self) -> Iterable[Slot]:
        yield Slot(np.zeros(RECORD_WORDS, np.int32), _Nowhere())


class MetaBackend:
    """A device that only has a target."""

    can_run = False
    survives_fork = True
    needs_staging = False
    waits_by_working = False

    def __init__(self, target: str) -> None:
        self.target = target
        self.runs = "cpu" if target == "cpu" else "cuda"
        self._records = _MetaRecords()

    def resident_blocks(self, occupancy: int = 1, num_ctas: int = 1) -> int:
        """Return one: the device has no properties."""
        del occupancy, num_ctas
        return 1

    def new_queue(self, label: str) -> NoReturn:
        """Refuse: the device runs nothing."""
        raise LaunchError(
            f"{label} has no memory, so nothing runs on it: `.compile()` works, and everything else"
            " needs tensors of a real device"
        )

    def adopt_queue(self, number: int) -> NoReturn:
        """Refuse: the device runs nothing."""
        self.new_queue(f"stream {number:#x}")

    def new_pool(self, release_threshold: int | None, limit: int | None) -> MetaPool:
        """Return an empty pool."""
        del release_threshold, limit
        return MetaPool()

    def build_graph(self, nodes: Sequence[object]) -> NoReturn:
        """Refuse: the device runs nothing."""
        raise LaunchError(
            "a graph has the addresses of its tensors, and tensors of `tw.meta` have none: record"
            " it with tensors of a real device"
        )

    def take_record(self) -> FailureRecord:
        """Return a record that no kernel writes."""
        return self._records.take()

    def stage(self, nbytes: int) -> None:
        """Do nothing: any host memory serves contents that are never read."""
        del nbytes

    def end(self) -> None:
        """Do nothing: the device runs nothing."""

    def owner_of(self, address: int) -> NoReturn:
        """Refuse: no address belongs to the device."""
        raise AssertionError(f"{address:#x} is no memory of this device")

    def adopt(self, address: int, nbytes: int, *, read_only: bool) -> NoReturn:
        """Refuse: no library has memory on the device."""
        raise AssertionError(f"{nbytes} bytes at {address:#x} are no memory of this device")


def missing() -> str | None:
    """Return None: the device always exists."""
    return None


def open_device(ordinal: int) -> MetaBackend:
    """Return the device for an architecture; ordinal 0 stands for the CPU."""
    return MetaBackend(f"sm_{ordinal}" if ordinal else "cpu")
