"""Our kernels in cuTile Python: the same tiles, order of blocks and padding.

`export_peers.py` compiles them for hosts without cuTile; where cuTile is installed, its own
`ct.launch` launches them.
"""

# ruff: noqa: N803 (constants of a kernel are upper case)

from __future__ import annotations

from typing import Any

import cuda.tile as ct

__all__ = ["add", "gemm_bands", "gemm_persistent", "gemm_rows"]

ZERO = ct.PaddingMode.ZERO
GROUP = 8  # rows of tiles in a band


def multiply_tile(z: Any, x: Any, y: Any, at: Any, BM: Any, BN: Any, BK: Any) -> None:
    i, j = at
    acc = ct.full((BM, BN), 0.0, dtype=ct.float32)
    for k in range(ct.cdiv(x.shape[1], BK)):
        left = ct.load(x, index=(i, k), shape=(BM, BK), padding_mode=ZERO)
        right = ct.load(y, index=(k, j), shape=(BK, BN), padding_mode=ZERO)
        acc = ct.mma(left, right, acc)
    ct.store(z, index=(i, j), tile=ct.astype(acc, z.dtype))


def place_in_bands(number: Any, rows: Any, columns: Any) -> Any:
    """Row and column of a tile when bands of `GROUP` rows are walked column by column."""
    size = GROUP * columns
    top = number // size * GROUP
    height = min(rows - top, GROUP)
    within = number % size
    return top + within % height, within // height


def gemm_rows(
    z: Any, x: Any, y: Any, BM: ct.Constant[int], BN: ct.Constant[int], BK: ct.Constant[int]
) -> None:
    """One tile a block, row by row: the x axis of the grid is the output's columns."""
    multiply_tile(z, x, y, (ct.bid(1), ct.bid(0)), BM, BN, BK)


def gemm_bands(
    z: Any, x: Any, y: Any, BM: ct.Constant[int], BN: ct.Constant[int], BK: ct.Constant[int]
) -> None:
    """One tile a block, band by band."""
    at = place_in_bands(ct.bid(0), ct.cdiv(z.shape[0], BM), ct.cdiv(z.shape[1], BN))
    multiply_tile(z, x, y, at, BM, BN, BK)


def gemm_persistent(
    z: Any, x: Any, y: Any, BM: ct.Constant[int], BN: ct.Constant[int], BK: ct.Constant[int]
) -> None:
    """Every block walks its share of the tiles, band by band."""
    rows, columns = ct.cdiv(z.shape[0], BM), ct.cdiv(z.shape[1], BN)
    for number in range(ct.bid(0), rows * columns, ct.num_blocks(0)):
        at = place_in_bands(number, rows, columns)
        multiply_tile(z, x, y, at, BM, BN, BK)


def add(z: Any, x: Any, y: Any, B: ct.Constant[int]) -> None:
    i = ct.bid(0)
    left = ct.load(x, index=(i,), shape=(B,), padding_mode=ZERO)
    ct.store(z, index=(i,), tile=left + ct.load(y, index=(i,), shape=(B,), padding_mode=ZERO))
