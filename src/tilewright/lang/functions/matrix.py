"""Matrix products."""

# mypy: disable-error-code="empty-body"
# pyright: reportReturnType=false

from __future__ import annotations

from typing import Any, TypeVar

from tilewright.dtypes import DType, f32
from tilewright.lang.builtin import builtin
from tilewright.lang.tile import Tile

__all__ = ["mma", "mma_scaled"]

D = TypeVar("D", bound=DType)


@builtin
def mma(a: Tile[Any], b: Tile[Any], acc: Tile[D], *, fast_acc: bool = False) -> Tile[D]:
    """The matrix product of `a` and `b`, added to `acc`, and summed in its dtype.

    `a` is [M, K], `b` is [K, N] and `acc` is [M, N]; all three may have one leading batch axis.
    f16 and 8-bit floats sum in f32 or f16, bf16, tf32 and f32 in f32, f64 in f64, and 8-bit
    integers, signed or not, in i32. `fast_acc` lets sums of 8-bit floats be less exact.
    """


@builtin
def mma_scaled(
    a: Tile[Any],
    b: Tile[Any],
    acc: Tile[f32],
    a_scale: Tile[Any],
    b_scale: Tile[Any],
) -> Tile[f32]:
    """The matrix product of narrow floats, groups of which along K share a scale; from sm_100 on.

    `a` is [M, K], `b` is [K, N], `acc` is [M, N], `a_scale` is [M, K // G] and `b_scale` is
    [K // G, N], where G elements share a scale: 32 of f8e4m3fn or f8e5m2 with f8e8m0fnu (mxfp8),
    16 or 32 of f4e2m1fn with f8e8m0fnu (mxfp4), 16 of f4e2m1fn with f8e4m3fn (nvfp4), whose scales
    count by their magnitude. All may have one leading batch axis.
    """
