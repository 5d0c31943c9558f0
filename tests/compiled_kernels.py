"""The compiled kernels that a kernel object has made so far, by the keys of its cache."""

from __future__ import annotations

from typing import Any

from tilewright.kernel import Kernel

__all__ = ["compiled_kernels"]


def compiled_kernels(kernel: Kernel) -> list[tuple[Any, Any]]:
    """Keys and compiled kernels, in the order in which they were made."""
    flights = kernel._compiled._entries.items()
    return [(key, flight.made[0]) for key, flight in flights if flight.made is not None]
