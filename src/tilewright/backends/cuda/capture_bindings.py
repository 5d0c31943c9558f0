"""Isolation of our driver calls from stream captures of other libraries.

While any thread captures a stream, the driver considers many calls of all threads unsafe, refuses
them, and invalidates the capture. Our calls are unrelated to captured streams, and must declare it.
"""

# The package is compiled and has no stubs.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from cuda.bindings import driver as cu

__all__ = ["beside_captures", "disregard_captures"]

_RELAXED = cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
Function = TypeVar("Function", bound=Callable[..., Any])


def disregard_captures() -> None:
    """Allow this thread, one of ours, to make any driver call during captures of other threads."""
    cu.cuThreadExchangeStreamCaptureMode(_RELAXED)


def beside_captures(function: Function) -> Function:
    """Return the same function, isolated from captures in any thread."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        _, before = cu.cuThreadExchangeStreamCaptureMode(_RELAXED)
        try:
            return function(*args, **kwargs)
        finally:
            if before is not None:  # after a kernel fault the GPU refuses this call as well
                cu.cuThreadExchangeStreamCaptureMode(before)

    return cast("Function", call)
