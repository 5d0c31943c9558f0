"""Another library on a GPU that exists on paper, like CuPy."""

from __future__ import annotations

import numpy as np
import runtime_names as tw
from runtime_doubles import reads, writes

from tilewright.backends.cuda.module import POINTER, CudaFunction
from tilewright.dtypes import f32, numpy_dtype
from tilewright.runtime.interop.dlpack import describe_capsule
from tilewright.runtime.interop.imports import from_dlpack

N = 8


class Library:
    """A library with a current stream, and arrays that know it, like CuPy."""

    def __init__(self, driver, base=0x5000_0000_0000):
        self.driver = driver
        self.stream = driver.create_stream()
        self.base = base

    def array(self, value=0.0, *, at=0, read_only=False, version=3):
        address = self.base + 0x1000 * at
        memory = self.driver.memory.setdefault(address, np.zeros(N * 4, np.uint8))
        memory.view(np.float32)[:] = value
        return CudaArray(self, address, read_only, version)


class CudaArray:
    """An array that speaks the CUDA array interface."""

    def __init__(self, library, address, read_only, version):
        self.library = library
        self.address = address
        self.read_only = read_only
        self.version = version

    @property
    def __cuda_array_interface__(self):
        interface = {
            "shape": (N,), "typestr": "<f4", "data": (self.address, self.read_only),
            "strides": None, "version": self.version,
        }  # fmt: skip
        if self.version == 3:
            interface["stream"] = self.library.driver.stream_number(self.library.stream)
        return interface

    @property
    def values(self):
        return self.library.driver.memory[self.address].view(np.float32)


class DlpackArray:
    """An array that speaks DLPack with streams."""

    def __init__(self, array, dtype=f32):
        self.array = array
        self.dtype = dtype
        self.streams = []

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, *, stream, max_version):
        self.streams.append(stream)
        window = type("Window", (), {})()
        size = numpy_dtype(self.dtype).itemsize
        window.__array_interface__ = {
            "version": 3, "typestr": f"<u{size}", "shape": (N,), "data": (self.array.address, False)
        }  # fmt: skip
        capsule = np.asarray(window).__dlpack__(max_version=max_version)
        return describe_capsule(capsule, self.dtype, 2, 0)


class Launch:
    def __init__(self, function, *tensors):
        self.function = function
        self.tensors = tensors

    def enqueue(self, stream):
        addresses = tuple(tensor.address for tensor in self.tensors)
        self.function.launch(stream, 1, addresses, ())


def floats(driver, parameter):
    return driver.at(int.from_bytes(parameter, "little"), N * 4).view(np.float32)


def add_one(driver, _blocks, z, x):
    floats(driver, z)[:] = floats(driver, x) + 1


class NamedStream:
    """A stream object of another library."""

    def __init__(self, driver, stream):
        self.number = driver.stream_number(stream)

    def __cuda_stream__(self):
        return 0, self.number


def builder(driver, device):
    """Builds operations that add one, of tensors and arrays."""
    driver.kernels["add_one"] = ((8, 8), add_one)
    function = CudaFunction(driver, b"cubin", "add_one", (POINTER, POINTER))

    def make(z, x, failure=None):
        z, x = from_dlpack(z), from_dlpack(x)
        work = Launch(function, z, x)
        return tw.make_operation("add_one", device, (writes(z), reads(x)), work, z, failure=failure)

    return make
