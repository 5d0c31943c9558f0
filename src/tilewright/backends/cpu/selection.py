"""The choice between the elements of two tiles."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.backends.cpu.pieces import in_pieces

__all__ = ["chosen"]

Array = Any  # an array, or a NumPy scalar where all elements are equal

_MANY = 1 << 10  # elements from which on one call of `np.where` is slow
_BLENDED = 1 << 14  # elements from which on a blend of bits is worth its calls
_RARE = 16  # of so many elements less than one is chosen differently: a branch is foreseen


def chosen(condition: Array, x: Array, y: Array) -> Array:
    """Return the elements of `x` where the condition is true, else those of `y`."""
    if condition.size < _MANY:
        return np.where(condition, x, y)
    count = np.count_nonzero(condition)
    is_foreseen = min(count, condition.size - count) * _RARE <= condition.size
    if condition.size >= _BLENDED and not is_foreseen:
        return _blended(condition, x, y)
    shape = np.broadcast_shapes(condition.shape, x.shape, y.shape)
    if count in (0, condition.size):
        only = x if count else y
        return only if only.shape == shape else np.broadcast_to(only, shape)
    result: Array = np.empty(shape, x.dtype)
    result[...] = y
    np.copyto(result, x, where=condition)
    return result


@in_pieces
def _blended(condition: Array, x: Array, y: Array) -> Array:
    """Choose without a branch for each element, which a processor cannot foresee."""
    integer = np.dtype(f"i{x.dtype.itemsize}")
    mask = np.negative(condition.view(np.int8)).astype(integer, copy=False)
    other = y.view(integer)
    blend = np.bitwise_and(np.bitwise_xor(x.view(integer), other), mask)
    return np.bitwise_xor(blend, other).view(x.dtype)
