"""Captures of other libraries, which calls of ours must not end.

While any thread captures a stream, the driver takes many calls of all threads for unsafe, refuses
them, and ends the capture. Ours have nothing to do with what is captured, and have to say so.
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
    """Let this thread, which is ours, make any call whatever others capture."""
    cu.cuThreadExchangeStreamCaptureMode(_RELAXED)


def beside_captures(function: Function) -> Function:
    """The same for one function, in whichever thread."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        _, before = cu.cuThreadExchangeStreamCaptureMode(_RELAXED)
        try:
            return function(*args, **kwargs)
        finally:
            if before is not None:  # a GPU on which a kernel has failed refuses this as well
                cu.cuThreadExchangeStreamCaptureMode(before)

    return cast("Function", call)
