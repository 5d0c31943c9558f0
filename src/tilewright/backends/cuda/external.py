"""Externally compiled code: its format, its kernels, and one of them on a GPU.

Names are read without the driver, from PTX as text and from a cubin as an ELF file. The parameters
of a kernel come from the driver that has loaded it. The semantics of a kernel stay unknown.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import cast

from tilewright.backends.cuda.cubin import cubin_resources
from tilewright.backends.cuda.device import CudaBackend
from tilewright.backends.cuda.module import Kind, Packers
from tilewright.backends.cuda.stream import CudaQueue
from tilewright.errors import LaunchError
from tilewright.runtime.devices.device import Device
from tilewright.runtime.devices.function import KernelLimits, LaunchShape
from tilewright.runtime.devices.stream import Stream

__all__ = ["CodeKind", "CudaExternalFunction", "kernel_names", "kind_of", "load_function"]

_ENTRY = re.compile(rb"\.entry\s+([A-Za-z_$%][\w$]*)")
_VERSION = re.compile(rb"^\s*\.version\s", re.MULTILINE)  # a PTX file has one, at its top
_UNASKED_SHARED = 48 * 1024  # bytes available to any kernel without a request


class CodeKind(Enum):
    """Format of a file of code."""

    PTX = "PTX"
    CUBIN = "a cubin"
    FATBIN = "a fat binary"


_MAGIC = {b"\x7fELF": CodeKind.CUBIN, b"\x50\xed\x55\xba": CodeKind.FATBIN}


def kind_of(code: bytes) -> CodeKind:
    """Return the format of code, by its first bytes."""
    known = _MAGIC.get(code[:4])
    if known is not None:
        return known
    if _VERSION.search(code) is None:
        raise LaunchError(
            "this is neither PTX, which has a `.version` line, nor a cubin or a fat binary:"
            " compile with `nvcc -ptx` or `nvcc -cubin`"
        )
    return CodeKind.PTX


def kernel_names(code: bytes) -> tuple[str, ...] | None:
    """Return the kernels of code, or None if only the driver knows."""
    kind = kind_of(code)
    if kind is CodeKind.PTX:
        return tuple(name.decode() for name in _ENTRY.findall(code))
    return tuple(cubin_resources(code)) if kind is CodeKind.CUBIN else None


class CudaExternalFunction:
    """One kernel on one GPU, ready to launch."""

    def __init__(self, device: Device, code: bytes, name: str, kinds: tuple[Kind, ...]) -> None:
        self._driver = cast("CudaBackend", device.backend).driver
        self._kernel = self._driver.load_external(code, name)
        self._packers = Packers(kinds)
        self._shared = _UNASKED_SHARED
        self.limits: KernelLimits = self._driver.kernel_limits(self._kernel)
        self.passed: tuple[int, ...] = self._packers.sizes  # size in bytes of each argument
        self.taken: tuple[int, ...] = self._driver.parameter_sizes(self._kernel)

    def prepare(self, shape: LaunchShape) -> None:
        """Prepare launches of a shape within the limits. The lock is held."""
        if shape.shared_bytes > self._shared:
            self._driver.allow_shared_memory(self._kernel, shape.shared_bytes)
            self._shared = shape.shared_bytes

    def launch(
        self, stream: Stream, shape: LaunchShape, arguments: tuple[int | float, ...]
    ) -> None:
        """Enqueue a launch on a stream. The device's lock is held."""
        queue = cast("CudaQueue", stream.queue)
        packer = self._packers.take()
        queue.launch_shape(self._kernel, shape, packer.pack(arguments))
        self._packers.put_back(packer)


def load_function(
    device: Device, code: bytes, name: str, kinds: tuple[Kind, ...]
) -> CudaExternalFunction:
    """Load a kernel of code on a GPU, for arguments of these kinds."""
    return CudaExternalFunction(device, code, name, kinds)
