"""Arithmetic on Python's integers, shared by kernels and the host."""

from __future__ import annotations

import operator
from typing import SupportsIndex

__all__ = ["cdiv", "next_power_of_2"]


def cdiv(a: SupportsIndex, b: SupportsIndex) -> int:
    """`a / b` rounded up."""
    return -(-operator.index(a) // operator.index(b))


def next_power_of_2(n: SupportsIndex) -> int:
    """The least power of two that is not below `n`."""
    return 1 << max(operator.index(n) - 1, 0).bit_length()
