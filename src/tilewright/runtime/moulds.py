"""What new tensors of one shape and dtype have in common, whatever memory they get.

Outputs are made for every launch, and most like others before them: what follows from the shape
alone is found and not computed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import NamedTuple, cast

from tilewright.dtypes import DType, numpy_dtype
from tilewright.runtime.indexing import Layout

__all__ = ["Mould", "find_mould"]


class Mould(NamedTuple):
    """A tensor that has a storage to itself, before it has one."""

    nbytes: int
    label: str
    layout: Layout


def _make(shape: tuple[int, ...], dtype: type[DType]) -> Mould:
    label = f"{dtype.label}[{', '.join(map(str, shape))}]"
    return Mould(prod(shape) * numpy_dtype(dtype).itemsize, label, Layout.packed(shape))


# By a shape that has been checked, and a dtype.
find_mould = cast("Callable[..., Mould]", lru_cache(maxsize=1024)(_make))
