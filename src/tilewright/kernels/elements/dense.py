"""Copies of views whose axes of rows do not merge, for functions that walk matrices alone.

Norms, softmax, reductions along the last axis and element-wise functions walk such views as they
lie. The other functions read a copy, which costs one more pass over the elements.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import tilewright as tw
from tilewright.kernels.elements.copying import convert

__all__ = ["can_be", "densely", "has_rows"]


def can_be(x: tw.Tensor, shape: tuple[int, ...]) -> bool:
    """Whether a view of the tensor has this shape."""
    try:
        x.reshape(shape)
    except tw.LaunchError:
        return False
    return True


def has_rows(x: tw.Tensor) -> bool:
    """Whether all axes of the tensor but the last merge into one."""
    return x.ndim <= 2 or x.is_contiguous or can_be(x, (prod(x.shape[:-1]), x.shape[-1]))


def densely(x: tw.Tensor, run: Callable[[tw.Tensor], tw.DeviceOp[Any]]) -> tw.DeviceOp[Any]:
    """The operation on a contiguous copy of a tensor."""
    copy: tw.Tensor = tw.empty(x.shape, x.dtype, device=x.device)
    return convert(copy, x).then(lambda _: run(copy))
