"""Captures of other libraries, which ours must not end.

While any thread captures a stream, the driver holds some calls of every thread for unsafe: it
refuses them, and the capture is lost. None of ours has to do with what is captured, so they say so.
"""

# The package is compiled and has no stubs.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cuda.bindings import driver as cu

__all__ = ["beside_captures", "disregard_captures"]

_RELAXED = cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED


def disregard_captures() -> None:
    """Let this thread, which is ours, make any call whatever others capture."""
    cu.cuThreadExchangeStreamCaptureMode(_RELAXED)


@contextmanager
def beside_captures() -> Iterator[None]:
    """The same for some calls in a thread of somebody else's."""
    _, before = cu.cuThreadExchangeStreamCaptureMode(_RELAXED)
    try:
        yield
    finally:
        cu.cuThreadExchangeStreamCaptureMode(before)
