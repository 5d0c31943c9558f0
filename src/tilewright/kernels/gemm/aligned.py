"""Copies of factors whose rows do not begin at addresses that TMA accepts.

Without TMA a product reads element by element and is many times slower, while a copy costs one
pass over the factor. The copy has rows of whole lines of the cache. Factors so small that their
product takes less time than a launch are multiplied as they are.
"""

from __future__ import annotations

from typing import Any

import tilewright as tw
from tilewright.kernels.elements.copying import copy_3d
from tilewright.kernels.gemm.operands import LINE, MatrixProduct, has_even_rows, with_factors

__all__ = ["aligned", "copied", "is_worth_copying", "store_of"]

TILE = (16, 128)  # rows and elements along them that a block copies
SMALL = 1 << 14  # elements of both factors that are not worth a copy


def is_worth_copying(wanted: MatrixProduct) -> bool:
    """Whether a product is faster on copies of its factors."""
    form = wanted.form
    return form.is_tensor_core and not form.is_aligned and wanted.a.size + wanted.b.size > SMALL


def aligned(wanted: MatrixProduct) -> tuple[tw.DeviceOp[Any], MatrixProduct]:
    """The copies of factors that need one, and the product of the copies."""
    copies: list[tw.DeviceOp[Any]] = []
    a, b = (one if has_even_rows(one) else copied(one, copies) for one in (wanted.a, wanted.b))
    first, *rest = copies
    return tw.zip(first, *rest) if rest else first, with_factors(wanted, a, b)


def copied(batch: tw.Tensor, copies: list[tw.DeviceOp[Any]]) -> tw.Tensor:
    """A copy of each matrix, contiguous along the same axis."""
    count, rows, columns = batch.shape
    if batch.strides[1] == 1 and batch.strides[2] != 1:
        made = store_of(batch, count, columns, rows).permute(0, 2, 1)
        tile = (1, *reversed(TILE))
    else:
        made, tile = store_of(batch, count, rows, columns), (1, *TILE)
    copies.append(copy_3d(made.partition(*tile), batch))
    return made


def store_of(like: tw.Tensor, count: int, rows: int, columns: int) -> tw.Tensor:
    """New matrices of the dtype of another, with rows of whole lines of the cache."""
    pitch = -(-columns * like.itemsize // LINE) * LINE // like.itemsize
    return tw.empty((count, rows, pitch), like.dtype, device=like.device)[:, :, :columns]
