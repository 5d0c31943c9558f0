"""Matrix products."""

# mypy: disable-error-code="empty-body"
# pyright: reportReturnType=false

from __future__ import annotations

from typing import Any, TypeVar

from tilewright.dtypes import DType
from tilewright.lang.builtin import builtin
from tilewright.lang.tile import Tile

__all__ = [
    "mma",
]

D = TypeVar("D", bound=DType)


@builtin
def mma(a: Tile[Any], b: Tile[Any], acc: Tile[D]) -> Tile[D]:
    """The matrix product of `a` and `b`, added to `acc`, whose dtype it is summed in.

    `a` is [M, K], `b` is [K, N] and `acc` is [M, N]; all three may have one leading batch axis.
    f16 and 8-bit floats sum in f32 or f16, bf16, tf32 and f32 in f32, f64 in f64, and 8-bit
    integers in i32.
    """
