"""What the creation functions mean on the host: `zeros` and its like make tensors there."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from tilewright.dtypes import DType, f32, i32, numpy_dtype
from tilewright.errors import LaunchError
from tilewright.lang import functions
from tilewright.lang.philox import PRECISIONS, uniform_numbers
from tilewright.runtime import creation
from tilewright.runtime.creation import empty, from_numpy, meta
from tilewright.runtime.tensor import Tensor

__all__ = ["empty", "from_numpy", "meta"]


def _arange(n: int, dtype: type[DType] = i32, **placement: Any) -> Tensor:
    """0, 1, … n - 1 along one axis."""
    return creation.from_numpy(np.arange(n).astype(numpy_dtype(dtype)), **placement)


def _rand(
    shape: int | tuple[int, ...],
    dtype: type[DType] = f32,
    *,
    seed: int = 0,
    offset: int = 0,
    **placement: Any,
) -> Tensor:
    """Floats spread evenly over [0, 1), the same on every device."""
    if dtype not in PRECISIONS:
        known = ", ".join(dtype.label for dtype in PRECISIONS)
        raise LaunchError(f"tw.rand makes {known}, not {dtype.label}")
    extents = (shape,) if isinstance(shape, int) else tuple(shape)
    numbers = uniform_numbers(prod(extents), dtype, seed, offset)
    return creation.from_numpy(numbers.reshape(extents), **placement)


functions.zeros.on_host = creation.zeros
functions.ones.on_host = creation.ones
functions.full.on_host = creation.full
functions.arange.on_host = _arange
functions.rand.on_host = _rand
