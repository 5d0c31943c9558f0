"""torch with a GPU that exists on paper: its memory on the CPU counts as the GPU's.

The driver runs one kernel, a sum, on that memory and on its own.
"""

from __future__ import annotations

import ctypes
import importlib

import numpy as np
import pytest

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N
from tilewright.runtime.interop import torch_tensors

torch = pytest.importorskip("torch", reason="needs torch")
program = importlib.import_module("tilewright.backends.cuda.program")
cache = importlib.import_module("tilewright.jit.cache.disk")

SIZE = 16


class LearntSizes(tuple):
    """Sizes of parameters that the driver learns from the first comparison."""

    def __ne__(self, other):
        self.driver.kernels[self.kernel] = (other, add_floats)
        return False


def floats(driver, parameter, length):
    address = int.from_bytes(parameter, "little")
    if any(base <= address < base + memory.size for base, memory in driver.memory.items()):
        return driver.at(address, 4 * length).view(np.float32)
    return np.ctypeslib.as_array((ctypes.c_float * length).from_address(address))


def add_floats(driver, _blocks, *parameters):
    z, x, y = (one for one in parameters if len(one) == 8)
    length = int.from_bytes(next(one for one in parameters if len(one) == 4), "little")
    x, y = (floats(driver, one, length) for one in (x, y))
    floats(driver, z, length)[:] = x + y


def plain_add(z: Mut[f32, B], x: Ref[f32, N], y: Ref[f32, N]) -> None:
    z.store(x.load_like(z) + y.load_like(z))


class Torch:
    """torch with a GPU: the current stream, tensors there, and a kernel of ours."""

    def __init__(self, driver):
        self.driver = driver
        self.stream = driver.create_stream()
        self.add = tw.kernel(plain_add)

    def number(self, _):
        return self.driver.stream_number(self.stream)

    def trio(self, size=SIZE):
        return torch.zeros(size), torch.full((size,), 2.0), torch.full((size,), 5.0)

    def launch(self, z, x, y):
        return self.add(tw.partition(z, SIZE), x, y)

    def bound(self, size=SIZE):
        """Three tensors, launched until that is bound to their addresses."""
        tensors = self.trio(size)
        for _ in range(3):
            self.launch(*tensors).submit()
        operation = self.launch(*tensors)
        assert way(operation) == "bound"
        operation.submit()
        self.finish()
        self.driver.log.clear()
        return tensors

    def order(self):
        return [entry[:3] for entry in self.driver.calls("record", "wait", "launch")]

    def finish(self):
        for stream in self.driver.streams:
            stream.capturing = False
            self.driver.synchronize_stream(stream)


def way(operation):
    """How a launch was found: "bound", "plan", or "cold"."""
    name = type(operation.work).__name__
    return name.removesuffix("Launch").lower() if name.endswith("Launch") else "cold"


def set_up(driver, monkeypatch):
    made = Torch(driver)
    monkeypatch.setattr(torch_tensors, "_device", lambda _: tw.Device("cuda"))
    monkeypatch.setattr(torch_tensors.TORCH, "current_number", made.number)
    monkeypatch.setattr(program, "assemble", lambda *_: b"")
    monkeypatch.setattr(cache, "open_cache", lambda *_: None)

    def sizes(kernel):
        found = LearntSizes()
        found.driver, found.kernel = driver, kernel
        return found

    monkeypatch.setattr(driver, "parameter_sizes", sizes)
    return made


class Allocator:
    """torch's own, told who still works on what it gets back."""

    def __init__(self, monkeypatch):
        self.told = []
        self._kept = []  # memory that the GPU still writes to
        monkeypatch.setattr(torch_tensors, "_is_allocated_by_torch", lambda _: True)
        monkeypatch.setattr(torch_tensors, "_as_torch_stream", lambda stream: stream)
        note = lambda tensor, stream: self.note(tensor, stream)  # noqa: E731 (as a method)
        monkeypatch.setattr(torch.Tensor, "record_stream", note)

    def note(self, tensor, stream):
        self.told.append((tensor.data_ptr(), stream))
        self._kept.append(tensor.untyped_storage())
