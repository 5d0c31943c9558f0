"""Which dtypes a tensor can have: what lives in memory, by our name or by NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.dtypes import IN_TILES_ONLY, AnyDType, DType, dtype_of_numpy
from tilewright.errors import LaunchError

__all__ = ["memory_dtype"]


def memory_dtype(dtype: Any) -> type[DType]:
    """The dtype that tensors of this kind have, or the reason why there are none."""
    found: type[DType] | None = None
    if isinstance(dtype, type) and issubclass(dtype, DType):
        found = dtype
    elif _is_numpy(dtype):
        found = dtype_of_numpy(np.dtype(dtype))
    if found is None:
        raise LaunchError(f"{dtype!r} is no dtype: say tw.f32, tw.i32 or the like")
    if issubclass(found, AnyDType) or found is DType:
        raise LaunchError(f"{found.__name__} stands for any dtype and has no elements of its own")
    if found in IN_TILES_ONLY:
        raise LaunchError(f"{found.label} lives in tiles only: in memory, {IN_TILES_ONLY[found]}")
    return found


def _is_numpy(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) or (
        isinstance(dtype, type) and issubclass(dtype, np.generic)
    )
