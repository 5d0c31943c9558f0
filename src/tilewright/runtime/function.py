"""The seam between compiled kernels and streams: what a backend gives for a kernel it can run."""

from __future__ import annotations

from typing import Protocol

from tilewright.runtime.records import Allocation
from tilewright.runtime.stream import Stream

__all__ = ["KernelFunction", "Memory"]


class Memory(Protocol):
    """Bytes that a launch may reach: a storage or a failure record."""

    @property
    def allocation(self) -> Allocation:
        """The bytes."""


class KernelFunction(Protocol):
    """A kernel ready to run on one device."""

    def launch(
        self,
        stream: Stream,
        blocks: int,
        arguments: tuple[int | float, ...],
        memories: tuple[Memory, ...],
    ) -> None:
        """Put a launch of `blocks` blocks on a stream. The device's lock is held."""
