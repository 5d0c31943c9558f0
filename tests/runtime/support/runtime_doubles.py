"""Work that tests can see and stop: NumPy functions as operations, and a GPU that exists on paper.

`RecordingDriver` keeps a log of every driver call and runs tasks of its streams only during a
wait, or when a test says `step`, in any order that events allow; memory that is touched
after it was freed on its stream is an error.
"""

from __future__ import annotations

import ctypes
import itertools
from collections import deque
from collections.abc import Callable
from functools import partial

import numpy as np
import runtime_names as tw
from gpu_functions import GpuWork, Node, add_one_kernel, copy_node, fill_node
from paper_graphs import PaperGraphs

from tilewright.dtypes import numpy_dtype
from tilewright.runtime.devices.function import KernelLimits, LaunchShape

_BASE = 0x7F00_0000_0000


def array_of(tensor: tw.Tensor) -> np.ndarray:
    """A tensor's elements in place, on the CPU device."""
    strides = tuple(stride * tensor.itemsize for stride in tensor.strides)
    data = tensor.storage.allocation.array.data
    return np.ndarray(
        tensor.shape, numpy_dtype(tensor.dtype), data, tensor.offset * tensor.itemsize, strides
    )


class NumpyWork:
    """Runs a function of the tensors' arrays on a CPU stream."""

    def __init__(self, function: Callable[..., object], *tensors: tw.Tensor) -> None:
        self.function = function
        self.tensors = tensors

    def enqueue(self, stream: tw.Stream) -> None:
        stream.queue.put(partial(self.function, *map(array_of, self.tensors)))


class NoWork:
    """Puts nothing on the stream."""

    def enqueue(self, stream: tw.Stream) -> None:
        pass


def operation(
    label: str,
    function: Callable[..., object],
    *accesses: tw.Access,
    failure: Callable[[], BaseException | None] | None = None,
    node: Callable[[], Node | None] | None = None,
) -> tw.DeviceOp[tuple[tw.Tensor, ...]]:
    """An operation that runs a function of the tensors' arrays; in a graph of a GPU a node."""
    tensors = tuple(access.tensor for access in accesses)
    device = tensors[0].device
    if device.kind == "cpu":
        work = NumpyWork(function, *tensors)
    else:
        work = GpuWork(function, *accesses, node=node)
        if node is None:  # a CUDA stream cannot say what a function raised
            failure = failure or work.failure
    return tw.make_operation(label, device, accesses, work, tensors, failure=failure)


def reads(tensor: tw.Tensor, name: str = "x") -> tw.Access:
    return tw.Access(tensor, tw.Mode.READ, name)


def writes(tensor: tw.Tensor, name: str = "z") -> tw.Access:
    return tw.Access(tensor, tw.Mode.WRITE, name)


def updates(tensor: tw.Tensor, name: str = "z") -> tw.Access:
    return tw.Access(tensor, tw.Mode.UPDATE, name)


def copy(z: tw.Tensor, x: tw.Tensor, label: str = "copy") -> tw.DeviceOp:
    return operation(label, np.copyto, writes(z), reads(x), node=lambda: copy_node(z, x))


def put(z: tw.Tensor, value: float, label: str = "put") -> tw.DeviceOp:
    fill = lambda array: array.fill(value)  # noqa: E731
    return operation(label, fill, writes(z), node=lambda: fill_node(z, value))


def add_one(z: tw.Tensor, label: str = "add_one") -> tw.DeviceOp:
    if z.device.kind == "cuda" and label == "add_one":
        return add_one_kernel()(z.partition(4)).giving((z,))
    return operation(label, lambda array: np.add(array, 1, out=array), updates(z))


def edges(graph: tw.Graph) -> tuple[tuple[int, ...], ...]:
    """For each node of a graph, those that it waits for."""
    return graph._built._plan.after


class _PaperStream:
    def __init__(self, number: int) -> None:
        self.number = number
        self.capturing = False
        self.tasks: deque[tuple[str, Callable[[], None] | None, tuple | None]] = deque()
        self.put = 0
        self.done = 0

    def __repr__(self) -> str:
        return f"s{self.number}"


class _PaperEvent:
    def __init__(self, number: int) -> None:
        self.number = number
        self.at: tuple[_PaperStream, int] | None = None


class RecordingDriver(PaperGraphs):
    """One GPU on paper."""

    target = "sm_90"
    multiprocessors = 132

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self.streams: list[_PaperStream] = []
        self.memory: dict[int, np.ndarray] = {}
        self.kernels: dict[str, tuple[tuple[int, ...], Callable[..., None]]] = {}
        self.externals: set[str] = set()  # kernels of threads, which get a whole shape
        self.waiting: set[str] = set()  # kernels that wait themselves for those before
        self.shared_bytes: dict[str, int] = {}  # what each may ask for
        self.patient = False  # a query then says "not ready" for ever
        self._numbers = itertools.count(1)
        self._next = _BASE
        self._pinned: list[ctypes.Array] = []

    def calls(self, *names: str) -> list[tuple]:
        return [entry for entry in self.log if entry[0] in names]

    # The device.

    def _put(self, stream: _PaperStream, name: str, task=None, after=None) -> None:
        stream.tasks.append((name, task, after))
        stream.put += 1

    def step(self, stream: _PaperStream) -> bool:
        """Run one task if what it waits for has happened."""
        if not stream.tasks:
            return False
        _, task, after = stream.tasks[0]
        if after is not None and after[0].done < after[1]:
            return False
        stream.tasks.popleft()
        if task is not None:
            task()
        stream.done += 1
        return True

    @property
    def used_streams(self) -> list[_PaperStream]:
        """Those that something was put on, or all if nothing was: most are made ahead."""
        return [stream for stream in self.streams if stream.put] or self.streams

    def _drain(self, wanted: Callable[[], bool]) -> None:
        while not wanted():
            ready = list(self.streams)
            self._random.shuffle(ready)
            assert any(self.step(stream) for stream in ready), "the streams wait for each other"

    def at(self, address: int, nbytes: int) -> np.ndarray:
        for base, memory in self.memory.items():
            if base <= address and address + nbytes <= base + memory.size:
                return memory[address - base : address - base + nbytes]
        raise AssertionError(f"{nbytes} bytes at {address:#x} are not allocated")

    # The driver's interface.

    def create_stream(self) -> _PaperStream:
        stream = _PaperStream(len(self.streams))
        self.streams.append(stream)
        return stream

    def make_room(self, places: int) -> None:
        """There always is."""

    def adopt_stream(self, number: int) -> _PaperStream:
        """A stream of another library; its number is its place, from 0x100 on, or 1."""
        return self.create_stream() if number == 1 else self.streams[number - 0x100]

    def stream_number(self, stream: _PaperStream) -> int:
        return 0x100 + stream.number

    def disregard_captures(self) -> None:
        self.log.append(("disregard_captures",))

    def is_capturing(self, stream: _PaperStream) -> bool:
        return stream.capturing

    def owner(self, address: int) -> int:
        return 0

    def query_stream(self, stream: _PaperStream) -> bool:
        assert not stream.capturing, "to ask a stream that is recorded spoils the recording"
        self.log.append(("query", stream))
        return not self.patient and not stream.tasks

    def synchronize_stream(self, stream: _PaperStream) -> None:
        assert not stream.capturing, "to wait for a stream that is recorded spoils the recording"
        self.log.append(("synchronize", stream))
        put = stream.put
        self._drain(lambda: stream.done >= put)

    def create_event(self) -> _PaperEvent:
        self.log.append(("create_event",))
        return _PaperEvent(next(self._numbers))

    def create_timing_event(self) -> _PaperEvent:
        return self.create_event()

    def seconds_between(self, first: _PaperEvent, second: _PaperEvent) -> float:
        """One second for each thing that was put on the stream between them."""
        assert first.at[0] is second.at[0], "events of two streams"
        assert first.at[0].done >= second.at[1], "not reached yet"
        return float(second.at[1] - first.at[1])

    def record_event(self, event: _PaperEvent, stream: _PaperStream) -> None:
        assert not stream.capturing, "an event there is part of the recording"
        self.log.append(("record", stream))
        event.at = (stream, stream.put)

    def query_event(self, event: _PaperEvent) -> bool:
        stream, put = event.at
        return not self.patient and stream.done >= put

    def wait_event(self, stream: _PaperStream, event: _PaperEvent) -> None:
        assert not stream.capturing, "a wait there is part of the recording"
        self.log.append(("wait", stream, event.at[0]))
        self._put(stream, "wait", None, event.at)

    def create_pool(self, limit: int) -> dict:
        self.log.append(("create_pool", limit))
        return {"limit": limit, "threshold": 0}

    def set_release_threshold(self, pool: dict, nbytes: int) -> None:
        pool["threshold"] = nbytes

    def pool_statistics(self, pool: dict) -> tuple[int, int, int, int]:
        used = sum(memory.size for memory in self.memory.values())
        return used, used, used, used

    def reset_pool_statistics(self, pool: dict) -> None:
        self.log.append(("reset_statistics",))

    def trim_pool(self, pool: dict, keep: int) -> None:
        self.log.append(("trim", keep))

    def allocate(self, nbytes: int, pool: dict, stream: _PaperStream) -> int:
        address, self._next = self._next, self._next + -(-max(nbytes, 1) // 256) * 256
        assert not stream.capturing, "memory that is got there is part of the recording"
        self.log.append(("allocate", stream, address, nbytes))
        garbage = np.full(max(nbytes, 1), 0xAA, np.uint8)
        self._put(stream, "allocate", lambda: self.memory.update({address: garbage}))
        return address

    def free(self, address: int, stream: _PaperStream) -> None:
        assert not stream.capturing, "memory that is freed there is part of the recording"
        self.log.append(("free", stream, address))
        self._put(stream, "free", lambda: self.memory.pop(address))

    def fill(self, address: int, pattern: bytes, repeats: int, stream: _PaperStream) -> None:
        self.log.append(("fill", stream, pattern, repeats))
        values = np.tile(np.frombuffer(pattern, np.uint8), repeats)
        self._put(stream, "fill", lambda: np.copyto(self.at(address, values.size), values))

    def copy(self, target: int, source: int, nbytes: int, stream: _PaperStream) -> None:
        self.log.append(("copy", stream, nbytes))
        self._put(
            stream, "copy", lambda: np.copyto(self.at(target, nbytes), self.at(source, nbytes))
        )

    def copy_in(self, address: int, source: int, nbytes: int, stream: _PaperStream) -> None:
        self.log.append(("copy_in", stream, nbytes))

        def run() -> None:
            ctypes.memmove(self.at(address, nbytes).ctypes.data, source, nbytes)

        self._put(stream, "copy_in", run)

    def copy_out(self, target: int, address: int, nbytes: int, stream: _PaperStream) -> None:
        self.log.append(("copy_out", stream, nbytes))

        def run() -> None:
            ctypes.memmove(target, self.at(address, nbytes).ctypes.data, nbytes)

        self._put(stream, "copy_out", run)

    def allocate_pinned(self, nbytes: int) -> tuple[int, int]:
        self.log.append(("allocate_pinned", nbytes))
        buffer = ctypes.create_string_buffer(nbytes)
        self._pinned.append(buffer)
        return ctypes.addressof(buffer), ctypes.addressof(buffer)

    def wait_value(self, stream: _PaperStream, address: int, value: int) -> None:
        self.log.append(("wait_value", address, value))

    def load_kernel(self, cubin: bytes, name: str, waits: bool = False) -> str:
        self.log.append(("load", len(cubin), name))
        if waits:
            self.waiting.add(name)
        return name

    def waits(self, kernel: str) -> bool:
        return kernel in self.waiting

    def load_external(self, code: bytes, name: str) -> str:
        self.log.append(("load_external", len(code), name))
        self.externals.add(name)
        return name

    def kernel_limits(self, kernel: str) -> KernelLimits:
        return KernelLimits(threads=512, shared_bytes=99 * 1024)

    def allow_shared_memory(self, kernel: str, nbytes: int) -> None:
        self.log.append(("allow_shared_memory", kernel, nbytes))
        self.shared_bytes[kernel] = nbytes

    def parameter_sizes(self, kernel: str) -> tuple[int, ...]:
        return self.kernels[kernel][0]

    def shaped_task(self, kernel: str, shape: LaunchShape, parameters: int) -> Callable[[], None]:
        assert shape.shared_bytes <= self.shared_bytes.get(kernel, 48 * 1024)
        if kernel in self.externals:
            return self.launch_task(kernel, shape, parameters)
        assert shape == LaunchShape.of_blocks(shape.grid[0]), "tile kernels have blocks in a row"
        return self.launch_task(kernel, shape.grid[0], parameters)

    def launch_task(
        self, kernel: str, blocks: int | LaunchShape, parameters: int
    ) -> Callable[[], None]:
        sizes, function = self.kernels[kernel]
        addresses = (ctypes.c_void_p * len(sizes)).from_address(parameters)
        # Read now: the driver copies parameters during the call.
        values = [ctypes.string_at(a, n) for a, n in zip(addresses, sizes, strict=True)]
        return lambda: function(self, blocks, *values)

    def launch(self, kernel: str, blocks: int, parameters: int, stream: _PaperStream) -> None:
        task = self.launch_task(kernel, blocks, parameters)
        self.log.append(("launch", stream, kernel, blocks))
        self._put(stream, "launch", task)

    def prepare_launch(self, kernel: str, blocks: int, parameters) -> Callable:
        return lambda stream, _: self.launch(
            kernel, blocks, parameters.address, stream.queue.handle
        )

    def launch_shape(
        self, kernel: str, shape: LaunchShape, parameters: int, stream: _PaperStream
    ) -> None:
        task = self.shaped_task(kernel, shape, parameters)
        self.log.append(("launch_shape", stream, kernel, *shape))
        self._put(stream, "launch", task)
