"""torch's allocator on a GPU that exists on paper, and torch's own work there.

Memory without a reference is free at once on the stream that it was got on, and never on others;
memory that the allocator was told another stream works on is free when that is done.
"""

from __future__ import annotations

import ctypes
import weakref
from typing import NamedTuple

import numpy as np
import pytest
from vector_clocks import ClockedDriver, Touch

from tilewright.runtime.interop import torch_tensors
from tilewright.runtime.memory.regions import Region

torch = pytest.importorskip("torch", reason="needs torch")

UNIT, UNITS = 64, 16  # bytes, and how many of them there are


def bytes_of(tensor) -> frozenset[int]:
    (extent,), (stride,), size = tensor.shape, tensor.stride(), tensor.element_size()
    first = tensor.data_ptr()
    starts = range(first, first + extent * stride * size, stride * size)
    return frozenset(byte for start in starts for byte in range(start, start + size))


class Use(NamedTuple):
    """A tensor that was passed, as it lay then."""

    address: int
    touched: frozenset[int]
    writes: bool
    tensor: weakref.ref

    @classmethod
    def of(cls, tensor, writes):
        return cls(tensor.data_ptr(), bytes_of(tensor), writes, weakref.ref(tensor))

    def is_elsewhere(self) -> bool:
        """Whether the tensor was given other memory since: then its use will be refused."""
        tensor = self.tensor()
        return tensor is not None and tensor.data_ptr() != self.address

    def meets(self, other) -> bool:
        return (self.writes or other.writes) and bool(self.touched & other.touched)

    def may_meet(self, other) -> bool:
        """The same of all that lies between the first and the last byte."""
        apart = max(self.touched) < min(other.touched) or max(other.touched) < min(self.touched)
        return (self.writes or other.writes) and not apart


class TorchsDriver(ClockedDriver):
    """Knows what torch does on its own streams, and which addresses a kernel gets."""

    def __init__(self, seed=0):
        super().__init__(seed)
        self.uses = ()
        self.pointers = []

    def load_kernel(self, cubin, name, waits=False):
        """One that is compiled for other strides has other parameters."""
        return f"{super().load_kernel(cubin, name, waits)} {len(self.calls('load'))}"

    def launch_task(self, kernel, blocks, parameters):
        sizes, _ = self.kernels[kernel]
        addresses = (ctypes.c_void_p * len(sizes)).from_address(parameters)
        values = [ctypes.string_at(a, n) for a, n in zip(addresses, sizes, strict=True)]
        self.pointers = [int.from_bytes(one, "little") for one in values if len(one) == 8]
        return lambda: None

    def fill_by_torch(self, stream, tensor):
        self.uses = (Use.of(tensor, True),)
        self._put(stream, "torch")

    def see_done(self, stream):
        self._see(stream)

    def _touched(self, name):
        if name == "launch":
            wanted = [use.address for use in self.uses]
            if self.pointers != wanted:
                self.problems.append(f"a kernel gets {self.pointers}, and was given {wanted}")
        assert name in {"launch", "torch"}, name
        return tuple(Touch(0, use.touched, Region.whole(1), use.writes) for use in self.uses)

    def _check_order(self, act):
        """Launches on torch's streams are behind what torch does there if it sees to that."""
        super()._check_order(act)
        if act.name == "torch":
            object.__setattr__(act, "touches", ())

    def _check_waits(self, act):
        """Some are torch's, which says nothing of what it does."""


class Block(np.ndarray):
    """Memory that torch has got; it has an end that can be seen."""


class Blocks:
    """torch's allocator, on memory of the host."""

    def __init__(self, monkeypatch, program):
        self.memory = np.zeros(UNIT * (UNITS + 1), np.uint8)
        self.start = -self.memory.ctypes.data % UNIT
        self.free = {}  # units, by the stream that they were got on
        self.unused = set(range(UNITS))
        self.told = {}  # by the unit
        self.latest = []  # what was given back
        self.program = program
        monkeypatch.setattr(torch_tensors, "_is_allocated_by_torch", lambda _: True)
        monkeypatch.setattr(torch_tensors, "_as_torch_stream", lambda stream: stream)
        note = lambda tensor, stream: self.note(tensor, stream)  # noqa: E731 (as a method)
        monkeypatch.setattr(torch.Tensor, "record_stream", note)

    def units_of(self, address, nbytes):
        first = address - self.memory.ctypes.data - self.start
        return range(first // UNIT, -(-(first + nbytes) // UNIT))

    def note(self, tensor, stream):
        handle = stream.queue.handle
        storage = tensor.untyped_storage()
        for unit in self.units_of(storage.data_ptr(), storage.nbytes()):
            self.told.setdefault(unit, set()).add(handle)

    def take(self, units, stream, dtype):
        """New memory, where there was some before if that can be."""
        draw = self.program.draw
        fits = []
        for first in range(UNITS - units + 1):
            wanted = range(first, first + units)
            if all(u in self.unused or self._is_free(u, stream) for u in wanted):
                fits.append(wanted)
        if not fits:
            return None
        latest = [wanted for wanted in self.latest if wanted in fits]
        wanted = latest[-1] if latest and draw.random() < 0.7 else draw.choice(fits)
        for unit in wanted:
            self.unused.discard(unit)
            self.free.pop(unit, None)
            self.told.pop(unit, None)
        begin = self.start + wanted.start * UNIT
        block = self.memory[begin : begin + units * UNIT].view(Block)
        weakref.finalize(block, self.give_back, wanted, stream).atexit = False
        taken = range(block.ctypes.data, block.ctypes.data + block.nbytes)
        for use in self.program.held():
            assert use.touched.isdisjoint(taken), "given out while it is used"
        return torch.frombuffer(block, dtype=dtype)

    def _is_free(self, unit, stream):
        if self.free.get(unit) is not stream:
            return False
        others = [one for one in self.told.get(unit, ()) if one is not stream]
        if any(one.tasks for one in others):
            return False
        for one in others:
            self.program.driver.see_done(one)
        return True

    def give_back(self, units, stream):
        for unit in units:
            self.free[unit] = stream
        self.latest = [*self.latest[-20:], units]
