"""Embedding: rows of a table selected by indices in memory."""

from __future__ import annotations

from typing import Literal

import tilewright as tw
from tilewright import Cut, Mut, Ref, i64
from tilewright.dims import BM, BN, D, M, T, V
from tilewright.kernels.arguments import (
    INDICES,
    MOVED,
    check_one_device,
    check_tensor,
    giving,
    output,
    rows_of,
)
from tilewright.kernels.cutting import element_config
from tilewright.kernels.large_tiles import on_cpu
from tilewright.kernels.placeholders import ID

__all__ = ["embedding", "embedding_gathered", "embedding_rows"]


@tw.kernel(deny_checks=True)
def embedding_rows(
    z: Mut[T, Cut[M, Literal[1]], Cut[D, BN]], ids: Ref[ID, M], table: Ref[T, V, D]
) -> None:
    """`z[m] = table[ids[m]]`; an id without a row gives zeros."""
    i, j = z.index
    rows = table.partition(1, BN)
    at = ids.gather(i).item()
    row = rows[rows.clip(at, 0), j]
    known = at >= 0 and at.astype(i64) < i64(V)
    z.store(tw.where(known, row, 0))


@tw.kernel(deny_checks=True)
def embedding_gathered(
    z: Mut[T, Cut[M, BM], Cut[D, BN]], ids: Ref[ID, M], table: Ref[T, V, D]
) -> None:
    """`z[m] = table[ids[m]]` of BM rows at once, element by element."""
    i, j = z.index
    rows = ids.partition(BM)[i].reshape(BM, 1)
    z.store(table.gather(rows, (j * BN + tw.arange(BN)).reshape(1, BN)))


@tw.function
def embedding(
    ids: tw.Tensor, table: tw.Tensor, *, out: tw.Tensor | None = None
) -> tw.DeviceOp[tw.Tensor]:
    """`table[ids]`: a row of the table for each id, and zeros for an id without a row.

    `ids` are integers of any shape, `table` is [V, D], and the result has one axis more than `ids`.
    """
    check_tensor("embedding", "ids", ids, INDICES)
    check_tensor("embedding", "table", table, MOVED)
    check_one_device("embedding", ids=ids, table=table)
    if table.ndim != 2:
        raise tw.LaunchError(f"`table` of embedding has rows and columns, not shape {table.shape}")
    z = output("embedding", out, (*ids.shape, table.shape[1]), table.dtype, table)
    if not z.size:
        return tw.value(z, device=z.device)
    if not len(table):
        return tw.fill(z, 0)
    line = rows_of("embedding", "ids", ids.unsqueeze(ids.ndim)).squeeze(1)
    rows = rows_of("embedding", "out", z)
    config = element_config("embedding", rows)
    if on_cpu(z):
        pieces = rows.partition(config["BM"], config["PART"])
        return giving(embedding_gathered(pieces, line, table), z)
    kernel = config.applied_to(embedding_rows)
    return giving(kernel(rows.partition(1, config["PART"]), line, table), z)
