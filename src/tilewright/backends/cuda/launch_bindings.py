"""The driver's calls that launch tile kernels, as a part of the real driver.

A tile kernel has a one-dimensional grid, and its code determines the rest. Streams belong to a
context, so the thread need not have it current; only the driver's default stream is that of the
thread's current context, which may be another one, or none. The driver then refuses the call, and
the context is bound. `ready_bindings` has repeated launches.
"""

# The package is compiled and has no stubs.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

from cuda.bindings import driver as cu

__all__ = ["LaunchCalls", "call_again"]

_SUCCESS = cu.CUresult.CUDA_SUCCESS
# Codes for a thread whose context is not that of a kernel, or which has none.
_ELSEWHERE = (cu.CUresult.CUDA_ERROR_INVALID_CONTEXT, cu.CUresult.CUDA_ERROR_INVALID_HANDLE)


class _ContextBinding(Protocol):
    """An object that binds a context and checks codes."""

    def bind(self) -> None:
        """Make the context current."""

    def check(self, call: str, code: Any) -> None:
        """Raise a `DriverError` if a call failed."""


def call_again(
    driver: _ContextBinding, name: str, code: Any, stream: Any, call: Callable[[], tuple[Any]]
) -> None:
    """Repeat a refused call, if it was for the default stream of another context."""
    if not stream.has_context and code in _ELSEWHERE:
        driver.bind()
        (code,) = call()
    driver.check(name, code)


class LaunchCalls(ABC):
    """Launches on one GPU; the subclass binds its context and checks codes."""

    @abstractmethod
    def bind(self) -> None:
        """Make the context current."""

    @abstractmethod
    def check(self, call: str, code: Any) -> None:
        """Raise a `DriverError` if a call failed."""

    def launch(self, kernel: Any, blocks: int, parameters: int, stream: Any) -> None:
        """Launch a one-dimensional grid, in the stream's context, not in that of the thread.

        These launches never start early: frequent launches are prepared.
        """
        given = (kernel.handle, blocks, 1, 1, 1, 1, 1, 0, stream.handle, parameters, 0)
        (code,) = cu.cuLaunchKernel(*given)
        if code is not _SUCCESS:
            call_again(self, "cuLaunchKernel", code, stream, lambda: cu.cuLaunchKernel(*given))
