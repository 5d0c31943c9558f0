"""Kernel functions: the interface between compiled kernels and streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.order.access import Handle
from tilewright.runtime.order.failure import Allocation

__all__ = ["Filled", "KernelFunction", "KernelLimits", "LaunchShape", "Memory", "ReadyCall"]


class Memory(Protocol):
    """Bytes that a launch may reach: a storage or a failure record."""

    @property
    def allocation(self) -> Allocation:
        """The bytes."""


# Puts one launch, with all arguments packed, on a stream; the tensors are those of the launch.
ReadyCall = Callable[[Stream, tuple[Handle, ...]], None]


class Filled(NamedTuple):
    """An argument that is the address of a tensor, filled in at the launch."""

    position: int
    tensor: int  # its number among the tensors


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
        """The same launch, to be repeated any number of times."""

    def prepare_for(
        self, blocks: int, arguments: tuple[int | float, ...], addresses: tuple[Filled, ...]
    ) -> ReadyCall:
        """The same for any tensors: each call fills in their addresses."""


class LaunchShape(NamedTuple):
    """Blocks, threads in each, and bytes of shared memory beyond those the kernel declares.

    A tile kernel has a row of blocks and no other extents; only kernels compiled elsewhere are
    launched with more.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int] = (1, 1, 1)
    shared_bytes: int = 0

    @classmethod
    def of_blocks(cls, blocks: int) -> LaunchShape:
        """A row of blocks."""
        return cls((blocks, 1, 1))


class KernelLimits(NamedTuple):
    """The limits of a launch of one kernel on one GPU."""

    threads: int  # in a block
    shared_bytes: int  # beyond those the kernel declares
