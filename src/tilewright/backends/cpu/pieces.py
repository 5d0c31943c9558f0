"""Element-wise functions on large arrays, applied a piece at a time.

A function with several temporary arrays is bound by memory where these exceed the cache: each one
is freshly allocated, and the system maps its pages one by one. Pieces reuse the same few kilobytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from math import prod
from typing import Any

import numpy as np

__all__ = ["PIECE", "in_pieces", "pieces"]

Array = Any  # an array, or a NumPy scalar where all elements are equal

PIECE = 1 << 14  # elements of an array whose temporary copies stay in the cache


def in_pieces(function: Callable[..., Array]) -> Callable[..., Array]:
    """Return an equivalent function with small temporary arrays.

    The function must be element-wise. Operands have one rank or are scalars, and are broadcast.
    """

    @wraps(function)
    def applied(*operands: Array) -> Array:
        for operand in operands:
            if operand.size > PIECE:
                return _piecewise(function, operands)
        return function(*operands)

    return applied


def pieces(array: Array) -> Iterator[Array]:
    """Return the parts of an array, by slices along its first axis of more than one element."""
    axis = next((axis for axis, extent in enumerate(array.shape) if extent > 1), 0)
    extent, step = array.shape[axis], max(PIECE * array.shape[axis] // array.size, 1)
    before = (slice(None),) * axis
    for start in range(0, extent, step):
        yield array[(*before, slice(start, start + step))]


def _piecewise(function: Callable[..., Array], operands: tuple[Array, ...]) -> Array:
    """Apply a function to slices along the first axis of more than one element."""
    shape = np.broadcast_shapes(*(operand.shape for operand in operands))
    axis = next(axis for axis, extent in enumerate(shape) if extent > 1)
    extent, step = shape[axis], max(PIECE * shape[axis] // prod(shape), 1)
    before = (slice(None),) * axis
    is_cut = [operand.ndim > axis and operand.shape[axis] > 1 for operand in operands]
    whole = None
    for start in range(0, extent, step):
        place = (*before, slice(start, start + step))
        parts = (
            operand[place] if cut else operand
            for operand, cut in zip(operands, is_cut, strict=True)
        )
        found = function(*parts)
        if whole is None:
            whole = np.empty(shape, found.dtype)
        whole[place] = found
    return whole
