"""Tasks: fills, copies and kernels that a queue runs, or that a graph keeps for its replays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial

import numpy as np

from tilewright.backends.cpu.memory import KernelMemory
from tilewright.backends.cpu.stopping import Stop
from tilewright.runtime.devices.backend import Bytes

__all__ = ["Tasks"]

_PATTERNS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class Tasks(ABC):
    """A sink of tasks, with fills and copies expressed as tasks."""

    @abstractmethod
    def put(self, run: Callable[[], object], *, repeatable: bool = False) -> None:
        """Enqueue a task."""

    @abstractmethod
    def put_kernel(self, run: Callable[[Stop], object], *, may_be_taken: bool = False) -> None:
        """Enqueue a task that can be stopped.

        A thread that waits for it may run it, if it calls no code of others and hands on every
        exception of a signal handler.
        """

    def fill(self, allocation: KernelMemory, pattern: bytes, repeats: int, offset: int = 0) -> None:
        """Fill memory with a repeated pattern."""
        kind = _PATTERNS[len(pattern)]
        elements = allocation.array[offset : offset + len(pattern) * repeats].view(kind)
        self.put(partial(elements.fill, np.frombuffer(pattern, kind)[0]), repeatable=True)

    def copy(
        self,
        target: KernelMemory,
        target_offset: int,
        source: KernelMemory,
        offset: int,
        nbytes: int,
    ) -> None:
        """Copy bytes from one allocation to another."""
        to = target.array[target_offset : target_offset + nbytes]
        self.put(partial(np.copyto, to, source.array[offset : offset + nbytes]), repeatable=True)

    def upload(self, allocation: KernelMemory, source: Bytes) -> None:
        """Copy host bytes in."""
        self.put(partial(np.copyto, allocation.array[: source.size], source), repeatable=True)

    def download(self, allocation: KernelMemory, offset: int, target: Bytes) -> None:
        """Copy bytes out."""
        source = allocation.array[offset : offset + target.size]
        self.put(partial(np.copyto, target, source), repeatable=True)
