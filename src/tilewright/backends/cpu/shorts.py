"""Short tiles: arrays that lack the end of a tile along one axis, where one number repeats.

A tile at the edge of a tensor is loaded without its padding, and computed with as long as each
element of the missing end equals its neighbours along that axis: the `fill`. A fill is a scalar, or
an array with extent one along the axis.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["differs", "padded", "put", "turned", "unit_axes"]

Array = Any


def padded(array: Array, axis: int, extent: int, fill: Array) -> Array:
    """Return an array with its missing end along an axis."""
    length = array.shape[axis]
    if length == extent:
        return array
    before = (slice(None),) * axis
    whole = np.empty((*array.shape[:axis], extent, *array.shape[axis + 1 :]), array.dtype)
    whole[(*before, slice(length))] = array
    whole[(*before, slice(length, None))] = fill
    return whole


def differs(array: Array, axis: int, extent: int, fill: Array, number: Any) -> bool:
    """Whether an end is missing in which some element is not a certain number."""
    return array.shape[axis] != extent and bool(np.count_nonzero(fill != number))


def put(target: Array, array: Array, axis: int, extent: int, fill: Array) -> None:
    """Write the part of a short tile that a window on memory has."""
    length = target.shape[axis]
    if length > array.shape[axis]:
        array = padded(array, axis, extent, fill)
    target[...] = array[(*(slice(None),) * axis, slice(length))]


def unit_axes(fill: Array, kept: tuple[Any, ...], added: tuple[Any, ...]) -> Array:
    """Return a fill with other axes of extent one."""
    return fill[kept][added] if np.ndim(fill) else fill


def turned(fill: Array, permutation: tuple[int, ...]) -> Array:
    """Return a fill with its axes in another order."""
    return fill.transpose(permutation) if np.ndim(fill) else fill
