"""The CPU as a device: the same streams, borrows and failures as a GPU, for tests and for machines
without one. `executor` runs the kernels; this module only queues them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NoReturn, Protocol, cast

import numpy as np

from tilewright.backends.cpu.graph import CpuGraph
from tilewright.backends.cpu.memory import KernelMemory
from tilewright.backends.cpu.pool import CpuPool
from tilewright.backends.cpu.stopping import Stop
from tilewright.backends.cpu.stream import CpuQueue
from tilewright.backends.cpu.tasks import Tasks
from tilewright.errors import LaunchError
from tilewright.runtime.devices.backend import ALIGNMENT, Recipe
from tilewright.runtime.devices.context import is_watching
from tilewright.runtime.devices.function import Filled, ReadyCall
from tilewright.runtime.devices.function import Memory as Reachable
from tilewright.runtime.devices.process import usable_cores
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.order.access import Handle
from tilewright.runtime.order.failure import RECORD_WORDS, FailureRecord, RecordPool, Slot

__all__ = ["CpuBackend", "CpuFunction", "RunnableKernel", "missing", "open_device"]

_RECORDS_AT_A_TIME = 64


class RunnableKernel(Protocol):
    """A kernel that the CPU can run."""

    def run(
        self,
        grid: tuple[int, int, int],
        arguments: Sequence[Any],
        memories: Sequence[KernelMemory],
        *,
        threads: int | None = None,
        race_check: bool = False,
        stop: Stop | None = None,
    ) -> None:
        """Run every block of a grid, unless it is asked to stop."""


class CpuFunction:
    """A kernel ready to run on a CPU stream."""

    def __init__(self, kernel: RunnableKernel, threads: int | None = None) -> None:
        self._kernel = kernel
        self._threads = threads

    def launch(
        self,
        stream: Stream,
        blocks: int,
        arguments: tuple[int | float, ...],
        memories: tuple[Reachable, ...],
    ) -> None:
        """Enqueue a launch of `blocks` blocks; without blocks it does nothing."""
        if blocks == 0:
            return
        # The queue holds the memories, so they outlive the launch.
        held = tuple(cast("KernelMemory", memory.allocation) for memory in memories)
        run = partial(self._kernel.run, (blocks, 1, 1), arguments, held, threads=self._threads)
        if is_watching():
            run = partial(run, race_check=True)
        tasks = cast("Tasks", stream.queue)
        tasks.put_kernel(lambda stop: run(stop=stop), may_be_taken=True)

    def prepare(self, blocks: int, arguments: tuple[int | float, ...]) -> ReadyCall:
        """Return the same launch, to be repeated."""

        def launch(stream: Stream, tensors: tuple[Handle, ...]) -> None:
            self.launch(stream, blocks, arguments, tuple(tensor.storage for tensor in tensors))

        return launch

    def prepare_for(
        self, blocks: int, arguments: tuple[int | float, ...], addresses: tuple[Filled, ...]
    ) -> ReadyCall:
        """Return the same launch, for any tensors."""

        def launch(stream: Stream, tensors: tuple[Handle, ...]) -> None:
            filled = list(arguments)
            for position, number in addresses:
                filled[position] = tensors[number].address
            self.launch(stream, blocks, tuple(filled), tuple([one.storage for one in tensors]))

        return launch


class _HostRecords(RecordPool):
    def make_slots(self) -> Iterable[Slot]:
        nbytes = RECORD_WORDS * 4
        chunk = KernelMemory.aligned(_RECORDS_AT_A_TIME * nbytes, ALIGNMENT)
        for start in range(0, chunk.array.size, nbytes):
            part = chunk.array[start : start + nbytes]
            yield Slot(part.view(np.int32), KernelMemory(chunk.address + start, part))


class CpuBackend:
    """One CPU device; `cpu:1` is equivalent to `cpu`, with streams and tensors of its own."""

    target = runs = "cpu"
    can_run = True
    survives_fork = True
    needs_staging = False
    waits_by_working = True

    def __init__(self) -> None:
        self._records = _HostRecords()

    def resident_blocks(self, occupancy: int = 1, num_ctas: int = 1) -> int:
        """Return the number of blocks that run at once: one for each core, whatever the hints."""
        del occupancy, num_ctas
        return usable_cores()

    def new_queue(self, label: str) -> CpuQueue:
        """Return a new queue."""
        return CpuQueue(label)

    def adopt_queue(self, number: int) -> NoReturn:
        """Refuse: other libraries have no streams on the CPU."""
        raise LaunchError(f"the CPU has no streams of other libraries, and {number:#x} is none")

    def new_pool(self, release_threshold: int | None, limit: int | None) -> CpuPool:
        """Return a pool of host memory with a limit; it caches no free memory."""
        del release_threshold
        return CpuPool(limit)

    def build_graph(self, nodes: Sequence[tuple[Recipe, tuple[int, ...]]]) -> CpuGraph:
        """Return a graph whose nodes run one by one."""
        return CpuGraph(nodes)

    def take_record(self) -> FailureRecord:
        """Return a failure record in plain memory."""
        return self._records.take()

    def stage(self, nbytes: int) -> None:
        """Do nothing: any host memory serves as a staging buffer."""
        del nbytes

    def adopt(self, address: int, nbytes: int, *, read_only: bool) -> KernelMemory:
        """Return host memory of another library."""
        return KernelMemory.at(address, nbytes, read_only=read_only)

    def end(self) -> None:
        """Do nothing: idle threads end with the process."""

    def owner_of(self, address: int) -> int:
        """Return the first device, to which all host memory belongs."""
        del address
        return 0


def missing() -> str | None:
    """Return None: the CPU always exists."""
    return None


def open_device(ordinal: int) -> CpuBackend:
    """Return the CPU device of an ordinal, which may be any number."""
    assert ordinal >= 0, "a device name has no sign"
    return CpuBackend()
