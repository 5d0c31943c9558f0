"""NumPy functions as work on a stream of a real GPU, so that the tests of the host run there, too.

Inputs of a function are copied to pinned memory behind the work before it, the driver calls the
function in its place on the stream, and its outputs are copied back. Elements are copied one
run at a time: a neighbour in the same storage may be written on another stream meanwhile. A node of
a CUDA graph is no function: nodes of the tests' graphs have a form of their own here.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
import runtime_names as tw

from tilewright.dtypes import numpy_dtype

_PINNED_BYTES = 16 << 20  # used in turn; far more than one test has under way


class _Pinned:
    """Pinned memory of one GPU, handed out in turn."""

    def __init__(self, driver: Any) -> None:
        self._start, _ = driver.allocate_pinned(_PINNED_BYTES)
        self._next = 0

    def array(self, shape: tuple[int, ...], kind: np.dtype[Any]) -> np.ndarray:
        nbytes = -(-max(int(np.prod(shape)) * kind.itemsize, 1) // 16) * 16
        if self._next + nbytes > _PINNED_BYTES:
            self._next = 0
        place, self._next = self._start + self._next, self._next + nbytes
        return np.ndarray(shape, kind, (ctypes.c_byte * nbytes).from_address(place))


_pinned: list[_Pinned] = []  # the first GPU's serves all
_waiting: dict[int, Callable[[], None]] = {}
_numbers = itertools.count(1)


def _call(number: int) -> None:
    _waiting.pop(number)()


@cache
def _entry() -> Any:
    """Our function as the driver wants it; it lives as long as the process."""
    from cuda.bindings import driver as cu

    pointer = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_call)
    return cu, pointer, cu.CUhostFn(ctypes.cast(pointer, ctypes.c_void_p).value)


class Node:
    """Work as a node of a graph: its call on a queue."""

    def __init__(self, kind: str, enqueue: Callable[[Any], None]) -> None:
        self.kind = kind
        self._put = enqueue

    def enqueue(self, stream: tw.Stream) -> None:
        self._put(stream.queue)


def fill_node(z: tw.Tensor, value: float) -> Node | None:
    """Every element the same, if they lie in one piece."""
    if not z.region.dense:
        return None
    pattern, place = numpy_dtype(z.dtype).type(value).tobytes(), z.region.low
    memory, size = z.storage.allocation, z.size
    return Node("fill", lambda queue: queue.fill(memory, pattern, size, place))


def copy_node(z: tw.Tensor, x: tw.Tensor) -> Node | None:
    """All elements of another tensor, if both lie in one piece."""
    if not (z.is_contiguous and x.is_contiguous):
        return None
    to, at = z.storage.allocation, z.byte_offset
    from_, offset, nbytes = x.storage.allocation, x.byte_offset, z.nbytes
    return Node("copy", lambda queue: queue.copy(to, at, from_, offset, nbytes))


@cache
def add_one_kernel() -> Any:
    """A launch under the name that other devices have for it."""
    from tilewright import Mut, f32, kernel
    from tilewright.dims import B

    @kernel
    def add_one(z: Mut[f32, B]) -> None:
        z.store(z.load() + 1)

    return add_one


class GpuWork:
    """Runs a function of the tensors' arrays on a CUDA stream, and keeps what it raises."""

    def __init__(
        self,
        function: Callable[..., object],
        *accesses: tw.Access,
        node: Callable[[], Node | None] | None = None,
    ) -> None:
        self.function = function
        self.accesses = accesses
        self.raised: list[BaseException] = []
        self._node = node

    def repeated(self) -> Node:
        made = None if self._node is None else self._node()
        if made is None:
            pytest.skip("a node of a CUDA graph is a kernel, and this one is a Python function")
        return made

    def enqueue(self, stream: tw.Stream) -> None:
        queue = stream.queue
        if not _pinned:
            _pinned.append(_Pinned(queue.driver))
        tensors = [access.tensor for access in self.accesses]
        arrays = [_pinned[0].array(one.shape, numpy_dtype(one.dtype)) for one in tensors]
        for tensor, array in zip(tensors, arrays, strict=True):
            for host, address, nbytes in _runs(tensor, array):
                queue.driver.copy_out(host, address, nbytes, queue.handle)
        self._call(queue, arrays)
        for access, array in zip(self.accesses, arrays, strict=True):
            for host, address, nbytes in _runs(access.tensor, array) if access.mode.writes else ():
                queue.driver.copy_in(address, host, nbytes, queue.handle)

    def _call(self, queue: Any, arrays: list[np.ndarray]) -> None:
        cu, _, entry = _entry()
        number = next(_numbers)
        _waiting[number] = lambda: self._run(arrays)
        (code,) = cu.cuLaunchHostFunc(queue.handle.handle, entry, number)
        queue.driver.check("cuLaunchHostFunc", code)

    def _run(self, arrays: list[np.ndarray]) -> None:
        try:
            self.function(*arrays)
        except BaseException as error:  # noqa: BLE001
            self.raised.append(error)

    def failure(self) -> BaseException | None:
        """The exception of the function."""
        return self.raised[0] if self.raised else None


def _runs(tensor: Any, array: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """Where the elements are: in the array, on the GPU, and for how many bytes."""
    if not tensor.size:
        return
    if tensor.is_contiguous:
        yield array.ctypes.data, tensor.address, array.nbytes
        return
    for place, index in enumerate(np.ndindex(tensor.shape)):
        offset = sum(i * stride for i, stride in zip(index, tensor.strides, strict=True))
        size = tensor.itemsize
        yield array.ctypes.data + place * size, tensor.address + offset * size, size
