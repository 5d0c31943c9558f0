"""Matrix products added to an accumulator.

Products of f16, bf16 and 8-bit floats are exact in f32, where they are summed before the
accumulator is added; tf32 operands are cut to the mantissa of tf32. Integer products are summed in
a float that holds them exactly, since BLAS is fast on floats.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.backends.cpu.faults import report_element
from tilewright.backends.cpu.halves import widened
from tilewright.dtypes import Element

__all__ = ["FLOAT", "integers", "scaled"]

Array = Any


def _product(lhs: Array, rhs: Array, acc: Array) -> Array:
    """Return the product of two matrices, of the accumulator's shape.

    A matrix may lack rows or columns of zeros. Their products are zero, but for those with NaN and
    infinity, which also make all other products of their row or column NaN or infinite.
    """
    product = np.matmul(lhs, rhs)
    if product.shape == acc.shape or not acc.shape:
        return product
    whole = np.zeros(acc.shape, product.dtype)
    (rows, columns), (height, width) = acc.shape, product.shape
    whole[:height, :width] = product
    if height < rows and not np.isfinite(product[-1]).all():
        whole[height:, :width] = np.matmul(np.zeros_like(lhs[:1]), rhs)
    if width < columns and not np.isfinite(product[:, -1]).all():
        whole[:height, width:] = np.matmul(lhs, np.zeros_like(rhs[:, :1]))
    return whole


def _same(lhs: Array, rhs: Array, acc: Array) -> Array:
    product = _product(lhs, rhs, acc)
    product += acc
    return product


def _through_f32(lhs: Array, rhs: Array, acc: Array) -> Array:
    product = _product(_wide(lhs), _wide(rhs), acc)
    if acc.dtype == np.float32:
        product += acc
        return product
    return (product + acc.astype(np.float32)).astype(acc.dtype)


def _wide(x: Array) -> Array:
    return widened(x) if x.dtype == np.float16 else x.astype(np.float32)


def _tf32(lhs: Array, rhs: Array, acc: Array) -> Array:
    return _same(_cut_mantissa(lhs), _cut_mantissa(rhs), acc)


def _cut_mantissa(x: Array) -> Array:
    bits = np.ascontiguousarray(x).view(np.uint32) & np.uint32(0xFFFFE000)
    return bits.view(np.float32)


# Products by element of the operands.
FLOAT: dict[Any, Callable[[Array, Array, Array], Array]] = {
    Element.F16: _through_f32,
    Element.BF16: _through_f32,
    Element.F32: _same,
    Element.TF32: _tf32,
    Element.F64: _same,
    Element.F8E4M3FN: _through_f32,
    Element.F8E5M2: _through_f32,
}


def integers(lhs: Array, rhs: Array, acc: Array, lhs_signed: bool, rhs_signed: bool) -> Array:
    """Add the product of 8-bit matrices, modulo the width, to a 32-bit accumulator."""
    # 256 products of at most 255 * 255 stay below 2**24, and f32 holds every integer up to that.
    exact = np.float32 if lhs.shape[-1] <= 256 else np.float64
    x = (lhs if lhs_signed else lhs.view(np.uint8)).astype(exact)
    y = (rhs if rhs_signed else rhs.view(np.uint8)).astype(exact)
    return _product(x, y, acc).astype(np.int64).astype(np.int32) + acc


def scaled(
    site: int, lhs: Array, rhs: Array, acc: Array, lhs_scale: Array, rhs_scale: Array
) -> Array:
    """Return the product of narrow floats, groups of which along the contracted axis share a scale.

    Scaled elements and their products are exact in f64, where they are summed; a negative scale is
    reported.
    """
    for scale in (lhs_scale, rhs_scale):
        negative = scale.astype(np.float32) < 0
        if negative.any():
            report_element(site, negative, "has the scale {}, which is below zero", scale)
    x = _spread(lhs.astype(np.float64), lhs_scale, -1)
    y = _spread(rhs.astype(np.float64), rhs_scale, -2)
    return (np.matmul(x, y) + acc).astype(np.float32)


def _spread(tile: Array, scale: Array, axis: int) -> Array:
    group = tile.shape[axis] // scale.shape[axis]
    return tile * np.repeat(scale.astype(np.float64), group, axis)
