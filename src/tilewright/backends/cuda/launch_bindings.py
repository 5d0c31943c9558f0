"""The driver's calls that launch tile kernels, as a part of the real driver.

A tile kernel has blocks in a row and leaves the rest to its code. Streams belong to a context, so
the thread need not have it; only the driver's default stream is that of the thread's context, which
may be another one, or none. Then the driver refuses, and that is the time to bind ours. Launches
made over and over are in `ready_bindings`.
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
# What the driver says where the thread has another context than a kernel, or none.
_ELSEWHERE = (cu.CUresult.CUDA_ERROR_INVALID_CONTEXT, cu.CUresult.CUDA_ERROR_INVALID_HANDLE)


class _Binding(Protocol):
    """Who binds a context and checks codes."""

    def bind(self) -> None:
        """Make the context current."""

    def check(self, call: str, code: Any) -> None:
        """Raise what a call failed with."""


def call_again(
    driver: _Binding, name: str, code: Any, stream: Any, call: Callable[[], tuple[Any]]
) -> None:
    """Make a refused call again, if it was for the default stream of another context."""
    if not stream.has_context and code in _ELSEWHERE:
        driver.bind()
        (code,) = call()
    driver.check(name, code)


class LaunchCalls(ABC):
    """Launches on one GPU; whoever has them binds its context and checks codes."""

    @abstractmethod
    def bind(self) -> None:
        """Make the context current."""

    @abstractmethod
    def check(self, call: str, code: Any) -> None:
        """Raise what a call failed with."""

    def launch(self, kernel: Any, blocks: int, parameters: int, stream: Any) -> None:
        """Launch blocks in a row, in the context of the stream, whatever the thread's own is.

        None of these starts early: what is launched often is prepared.
        """
        given = (kernel.handle, blocks, 1, 1, 1, 1, 1, 0, stream.handle, parameters, 0)
        (code,) = cu.cuLaunchKernel(*given)
        if code is not _SUCCESS:
            call_again(self, "cuLaunchKernel", code, stream, lambda: cu.cuLaunchKernel(*given))
