"""The driver's calls that launch tile kernels, as a part of the real driver.

A tile kernel has blocks in a row and leaves the rest to its code, so of a launch made over and over
all is known beforehand but its stream.
"""

# The package is compiled and has no stubs.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from cuda.bindings import driver as cu

from tilewright.backends.cuda.driver import Parameters
from tilewright.runtime.function import ReadyCall

__all__ = ["LaunchCalls"]

_SUCCESS = cu.CUresult.CUDA_SUCCESS


class LaunchCalls(ABC):
    """Launches on one GPU; whoever has them checks codes."""

    @abstractmethod
    def check(self, call: str, code: Any) -> None:
        """Raise what a call failed with."""

    def launch(self, kernel: Any, blocks: int, parameters: int, stream: Any) -> None:
        """Launch blocks in a row, in the context of the stream, whatever the thread's own is."""
        handle = stream.handle
        (code,) = cu.cuLaunchKernel(kernel.handle, blocks, 1, 1, 1, 1, 1, 0, handle, parameters, 0)
        if code is not _SUCCESS:
            self.check("cuLaunchKernel", code)

    def prepare_launch(self, kernel: Any, blocks: int, parameters: Parameters) -> ReadyCall:
        """The same as a function of a stream of ours; it keeps the parameters.

        Launches happen under the device's lock, and most are on the stream of the one before.
        """
        call, handle, address = cu.cuLaunchKernelEx, kernel.handle, parameters.address
        shape = cu.CUlaunchConfig()
        shape.gridDimX, shape.gridDimY, shape.gridDimZ = blocks, 1, 1
        shape.blockDimX = shape.blockDimY = shape.blockDimZ = 1
        last: Any = None

        def launch(stream: Any, _: object, _kept: Parameters = parameters) -> None:
            nonlocal last
            if stream is not last:
                shape.hStream = stream.queue.handle.handle
                last = stream
            (code,) = call(shape, handle, address, 0)
            if code is not _SUCCESS:
                self.check("cuLaunchKernelEx", code)

        return launch
