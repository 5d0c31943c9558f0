"""A device without memory: kernels are specialised, checked and compiled for it, and never run.

Its number is the target: `meta:90` stands for sm_90, and plain `meta` for the CPU. What is compiled
for it goes into the cache on disk like anything else, so one machine can prepare for another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from tilewright.errors import LaunchError
from tilewright.runtime.devices.backend import PoolStatistics
from tilewright.runtime.order.failure_records import RECORD_WORDS, FailureRecord, RecordPool, Slot

__all__ = ["MetaBackend", "MetaPool", "missing", "open_device"]


class MetaPool:
    """No memory."""

    def statistics(self) -> PoolStatistics:
        """Nothing is in use."""
        return PoolStatistics(0, 0, 0, 0)

    def trim(self, keep: int) -> None:
        """There is nothing to give back."""

    def reset_highest(self) -> None:
        """There is nothing to count."""


@dataclass(frozen=True)
class _Nowhere:
    address: int = 0


class _Records(RecordPool):
    def make_slots(self) -> Iterable[Slot]:
        yield Slot(np.zeros(RECORD_WORDS, np.int32), _Nowhere())


class MetaBackend:
    """A device that only has a target."""

    can_run = False
    survives_fork = True
    needs_staging = False

    def __init__(self, target: str) -> None:
        self.target = target
        self.runs = "cpu" if target == "cpu" else "cuda"
        self._records = _Records()

    def resident_blocks(self, occupancy: int = 1, num_ctas: int = 1) -> int:
        """One, on a device of which nothing is known."""
        del occupancy, num_ctas
        return 1

    def new_queue(self, label: str) -> NoReturn:
        """Refused: nothing runs here."""
        raise LaunchError(
            f"{label} has no memory, so nothing runs on it: `.compile()` is what works, and tensors"
            " of a real device are for everything else"
        )

    def adopt_queue(self, number: int) -> NoReturn:
        """Refused: nothing runs here."""
        self.new_queue(f"stream {number:#x}")

    def new_pool(self, release_threshold: int | None, limit: int | None) -> MetaPool:
        """A pool of nothing."""
        del release_threshold, limit
        return MetaPool()

    def build_graph(self, nodes: Sequence[object]) -> NoReturn:
        """Refused: nothing runs here."""
        raise LaunchError(
            "a graph has the addresses of its tensors, and tensors of `tw.meta` have none: record"
            " it with tensors of a real device"
        )

    def take_record(self) -> FailureRecord:
        """A record that nobody writes."""
        return self._records.take()

    def stage(self, nbytes: int) -> None:
        """Any host memory will do for contents that go nowhere."""
        del nbytes

    def end(self) -> None:
        """Nothing runs here."""

    def owner_of(self, address: int) -> NoReturn:
        """Refused: no address belongs to it."""
        raise AssertionError(f"{address:#x} is no memory of this device")

    def adopt(self, address: int, nbytes: int, *, read_only: bool) -> NoReturn:
        """Refused: no library has memory here."""
        raise AssertionError(f"{nbytes} bytes at {address:#x} are no memory of this device")


def missing() -> str | None:
    """Why there is no such device: there always is one."""
    return None


def open_device(ordinal: int) -> MetaBackend:
    """The device for an architecture; number 0 stands for the CPU."""
    return MetaBackend(f"sm_{ordinal}" if ordinal else "cpu")
