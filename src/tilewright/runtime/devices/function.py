"""The seam between compiled kernels and streams: what a backend gives for a kernel it can run."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.order.access import Handle
from tilewright.runtime.order.failure_records import Allocation

__all__ = ["Filled", "KernelFunction", "KernelLimits", "LaunchShape", "Memory", "ReadyCall"]


class Memory(Protocol):
    """Bytes that a launch may reach: a storage or a failure record."""

    @property
    def allocation(self) -> Allocation:
        """The bytes."""


# Puts one launch, of which everything is known, on a stream; the tensors are those it is for.
ReadyCall = Callable[[Stream, tuple[Handle, ...]], None]


class Filled(NamedTuple):
    """An argument that is the address of a tensor, which is known when the launch is made."""

    position: int
    tensor: int  # its number


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

    def prepare(self, blocks: int, arguments: tuple[int | float, ...]) -> ReadyCall:
        """The same launch, to be made any number of times."""

    def prepare_for(
        self, blocks: int, arguments: tuple[int | float, ...], addresses: tuple[Filled, ...]
    ) -> ReadyCall:
        """The same for any tensors: their addresses are filled in by each call."""


class LaunchShape(NamedTuple):
    """Blocks, threads in each, and bytes of shared memory beside what the kernel declares.

    A tile kernel has blocks in a row and leaves the rest to its code; only kernels that somebody
    else compiled are launched with more.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int] = (1, 1, 1)
    shared_bytes: int = 0

    @classmethod
    def of_blocks(cls, blocks: int) -> LaunchShape:
        """Blocks in a row."""
        return cls((blocks, 1, 1))


class KernelLimits(NamedTuple):
    """The most that a launch of one kernel may ask for on one GPU."""

    threads: int  # in a block
    shared_bytes: int  # beside what the kernel declares
