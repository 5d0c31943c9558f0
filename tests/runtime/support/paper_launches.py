"""Kernels of a GPU on paper as functions of f32 tensors of eight elements, and launches of them."""

from __future__ import annotations

import numpy as np
import runtime_names as tw

from tilewright.backends.cuda.device import CudaBackend
from tilewright.backends.cuda.module import POINTER, CudaFunction


class FunctionWork:
    """Work that launches a function of a module, in one block, on the addresses of its tensors."""

    def __init__(self, function, tensors):
        self.kind = self.function = function
        self.storages = tuple(tensor.storage for tensor in tensors)
        self._offsets = tuple(tensor.offset * tensor.itemsize for tensor in tensors)

    def repeated(self):
        return self

    def enqueue(self, stream):
        places = zip(self.storages, self._offsets, strict=True)
        addresses = tuple(storage.address + offset for storage, offset in places)
        self.function.launch(stream, 1, addresses, self.storages)


def floats(driver, parameter, count=8):
    """The elements at an address, as a kernel gets it."""
    return driver.at(int.from_bytes(parameter, "little"), 4 * count).view(np.float32)


def copy_kernel(driver, _blocks, z, x):
    floats(driver, z)[:] = floats(driver, x)


def add_one_kernel(driver, _blocks, z, x):
    floats(driver, z)[:] = floats(driver, x) + 1


def mix_kernel(driver, _blocks, z, x):
    out = floats(driver, z)
    out[:] = out * 3 + floats(driver, x) + 1


def paper_device(driver):
    """A device of its own on a GPU on paper, which no name finds."""
    device = object.__new__(tw.Device)
    device.attach("cuda", 0, CudaBackend(driver))
    return device


def load(driver, name, kernel, **options):
    """A function of two pointers on that GPU."""
    driver.kernels[name] = ((8, 8), kernel)
    return CudaFunction(driver, b"cubin", name, (POINTER, POINTER), **options)
