"""Reductions and scans over arrays, with a body written as a function over arrays.

A body takes elements and accumulators in pairs and returns the new accumulators: the element comes
first in a reduction, the accumulator in a scan. The body is associative; operands keep the order of
the axis, so it need not be commutative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["accumulate", "extremum", "neighbours", "one_by_one", "running", "tree"]

Array = Any
Body = Callable[..., tuple[Array, ...]]

_WIDE = 256  # elements of a slice for which a call is worth it


def tree(body: Body, axis: int, *sources: Array) -> list[Array]:
    """Combine neighbours until one is left along the axis, which is then dropped."""
    current = [np.moveaxis(source, axis, 0) for source in sources]
    while (extent := current[0].shape[0]) > 1:
        pairs: list[Array] = []
        for array in current:
            pairs += (array[1::2], array[0 : extent - 1 : 2])
        shape = pairs[0].shape
        totals = [np.broadcast_to(total, shape) for total in body(*pairs)]
        if extent % 2:  # a tile without its padding
            ends = [array[-1:] for array in current]
            totals = [np.concatenate(parts) for parts in zip(totals, ends, strict=True)]
        current = totals
    return [array[0].copy() if array.ndim > 1 else array[0] for array in current]


def neighbours(ufunc: np.ufunc, source: Array) -> Array:
    """Combine the few elements along the last axis, one after the other.

    NumPy starts its inner loop for every result, which costs more than so short a loop.
    """
    found = source[..., 0]
    for place in range(1, source.shape[-1]):
        found = ufunc(found, source[..., place])
    return found.copy() if source.shape[-1] == 1 else found


def extremum(found: Array, body: Body, axis: int, source: Array) -> Array:
    """Return NumPy's extremum; one that is NaN, or a zero of either sign, is recomputed.

    The body decides between NaN and numbers, and between zeros of different signs.
    """
    if np.count_nonzero(found) == found.size and not np.count_nonzero(found != found):
        return found
    if not np.shape(found):
        return tree(body, axis, source)[0]
    along = np.moveaxis(source, axis, 0)
    is_zero = found == 0
    zeros = along[:, is_zero]
    is_open = found != found
    if np.count_nonzero((zeros == 0) & np.signbit(zeros)):
        is_open |= is_zero
    if np.count_nonzero(is_open):
        found[is_open] = tree(body, 0, along[:, is_open])[0]
    return found


def running(body: Body, axis: int, reverse: bool, *sources: Array) -> list[Array]:
    """Scan in doubling steps: each combines elements at twice the distance of the step before."""
    current = [_forwards(source, axis, reverse) for source in sources]
    extent, step = current[0].shape[0], 1
    while step < extent:
        pairs: list[Array] = []
        for array in current:
            pairs += (array[:-step], array[step:])
        shape = pairs[0].shape
        combined = [np.broadcast_to(total, shape) for total in body(*pairs)]
        current = [
            np.concatenate((array[:step], total))
            for array, total in zip(current, combined, strict=True)
        ]
        step *= 2
    return [_backwards(array, axis, reverse) for array in current]


def accumulate(
    ufunc: np.ufunc, source: Array, axis: int, reverse: bool, dtype: np.dtype[Any]
) -> Array:
    """Scan by a NumPy function."""
    if axis < source.ndim - 1 and source.size >= _WIDE * source.shape[axis]:
        return _stepwise(ufunc, source, axis, reverse, dtype)
    if not reverse:
        return ufunc.accumulate(source, axis, dtype)
    return np.flip(ufunc.accumulate(np.flip(source, axis), axis, dtype), axis)


def _stepwise(
    ufunc: np.ufunc, source: Array, axis: int, reverse: bool, dtype: np.dtype[Any]
) -> Array:
    """Accumulate a slice at a time: NumPy goes along the axis for each element of a slice."""
    result = np.empty(source.shape, dtype)
    slices, sources = _forwards(result, axis, reverse), _forwards(source, axis, reverse)
    slices[0] = sources[0]
    for place in range(1, len(slices)):
        ufunc(slices[place - 1], sources[place], out=slices[place])
    return result


def one_by_one(body: Body, plain: tuple[bool, ...]) -> Body:
    """Lift a body over scalars to arrays; `plain` marks the arguments that are Python ints."""

    def applied(*arrays: Array) -> tuple[Array, ...]:
        flat = (array.reshape(-1) for array in arrays)
        columns = (a.tolist() if ints else a for a, ints in zip(flat, plain, strict=True))
        rows = [body(*row) for row in zip(*columns, strict=True)]
        shape = np.shape(arrays[0])
        return tuple(np.array(column).reshape(shape) for column in zip(*rows, strict=True))

    return applied


def _forwards(source: Array, axis: int, reverse: bool) -> Array:
    moved = np.moveaxis(source, axis, 0)
    return moved[::-1] if reverse else moved


def _backwards(array: Array, axis: int, reverse: bool) -> Array:
    return np.moveaxis(array[::-1] if reverse else array, 0, axis).copy()
