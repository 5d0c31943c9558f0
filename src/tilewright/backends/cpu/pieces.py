"""Element-wise functions on large arrays, applied a piece at a time.

A function with several temporary arrays is bound by memory where these exceed the cache: each one
is freshly allocated, and the system maps its pages one by one. Pieces reuse the same few kilobytes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from math import prod
from typing import Any

import numpy as np

__all__ = ["in_pieces"]

Array = Any  # an array, or a NumPy scalar where all elements are equal

_PIECE = 1 << 14  # elements


def in_pieces(function: Callable[..., Array]) -> Callable[..., Array]:
    """Return an equivalent function with small temporary arrays.

    The function must be element-wise. Operands have one rank or are scalars, and are broadcast.
    """

    @wraps(function)
    def applied(*operands: Array) -> Array:
        for operand in operands:
            if operand.size > _PIECE:
                return _piecewise(function, operands)
        return function(*operands)

    return applied


def _piecewise(function: Callable[..., Array], operands: tuple[Array, ...]) -> Array:
    """Apply a function to slices along the first axis of more than one element."""
    shape = np.broadcast_shapes(*(operand.shape for operand in operands))
    axis = next(axis for axis, extent in enumerate(shape) if extent > 1)
    extent, step = shape[axis], max(_PIECE * shape[axis] // prod(shape), 1)
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
