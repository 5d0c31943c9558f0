"""The choice between the elements of two tiles."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["chosen"]

Array = Any  # an array, or a NumPy scalar where all elements are equal

_MANY = 1 << 12  # elements from which on a copy and a masked copy beat one call of `np.where`


def chosen(condition: Array, x: Array, y: Array) -> Array:
    """Return the elements of `x` where the condition is true, else those of `y`."""
    if condition.size < _MANY:
        return np.where(condition, x, y)
    shape = np.broadcast_shapes(condition.shape, x.shape, y.shape)
    result: Array = np.empty(shape, x.dtype)
    result[...] = y
    np.copyto(result, x, where=condition)
    return result
