"""The driver's calls for externally compiled kernels, as a part of the real driver.

Such a kernel has an explicit number of threads and shared memory, which tile kernels lack.
"""

# The packages are compiled and have no stubs.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from cuda.bindings import driver as cu
from cuda.core import ObjectCode

from tilewright.backends.cuda.external import CodeKind, kind_of
from tilewright.runtime.devices.function import KernelLimits, LaunchShape

__all__ = ["ExternalCalls"]

_READERS = {
    CodeKind.PTX: ObjectCode.from_ptx,
    CodeKind.CUBIN: ObjectCode.from_cubin,
    CodeKind.FATBIN: ObjectCode.from_fatbin,
}
_OfKernel = cu.CUfunction_attribute
_OfDevice = cu.CUdevice_attribute


class ExternalCalls(ABC):
    """Kernels of threads; the subclass binds its context, loads code and checks codes."""

    @property
    @abstractmethod
    def device_handle(self) -> Any:
        """The driver's handle of the GPU."""

    @abstractmethod
    def bind(self) -> None:
        """Make the context current."""

    @abstractmethod
    def check(self, call: str, code: Any) -> None:
        """Raise a `DriverError` if a call failed."""

    @abstractmethod
    def load(self, read: Any, code: bytes, name: str) -> Any:
        """Load a kernel from code by one of cuda-core's functions."""

    def load_external(self, code: bytes, name: str) -> Any:
        """Load a kernel of PTX, a cubin or a fat binary."""
        return self.load(_READERS[kind_of(code)], code, name)

    def kernel_limits(self, kernel: Any) -> KernelLimits:
        """Return the limits on a block's threads and on its dynamic shared memory."""
        threads = self._of_kernel(kernel, _OfKernel.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)
        declared = self._of_kernel(kernel, _OfKernel.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)
        most = _OfDevice.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
        code, there = cu.cuDeviceGetAttribute(most, self.device_handle)
        self.check("cuDeviceGetAttribute", code)
        return KernelLimits(threads, int(there) - declared)

    def _of_kernel(self, kernel: Any, attribute: Any) -> int:
        code, number = cu.cuKernelGetAttribute(attribute, kernel.kernel_handle, self.device_handle)
        self.check("cuKernelGetAttribute", code)
        return int(number)

    def allow_shared_memory(self, kernel: Any, nbytes: int) -> None:
        """Raise the limit, which is 48 KiB by default."""
        bound = _OfKernel.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        handle = kernel.kernel_handle
        (code,) = cu.cuKernelSetAttribute(bound, nbytes, handle, self.device_handle)
        self.check("cuKernelSetAttribute", code)

    def launch_shape(self, kernel: Any, shape: LaunchShape, parameters: int, stream: Any) -> None:
        """Launch blocks of threads."""
        self.bind()
        (code,) = cu.cuLaunchKernel(
            kernel.launch_handle, *shape.grid, *shape.block, shape.shared_bytes, stream.handle,
            parameters, 0,
        )  # fmt: skip
        self.check("cuLaunchKernel", code)
