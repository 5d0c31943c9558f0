"""Embedding: rows of a table selected by indices in memory."""

from __future__ import annotations

import tilewright as tw
from tilewright import Cut, Mut, Ref
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
from tilewright.kernels.arithmetic import lies_inside, store_whole
from tilewright.kernels.cutting import element_config
from tilewright.kernels.placeholders import ID

__all__ = ["embedding", "embedding_rows"]


@tw.kernel(deny_checks=True)
def embedding_rows(z: Mut[T, Cut[M, BM], Cut[D, BN]], ids: Ref[ID, M], table: Ref[T, V, D]) -> None:
    """`z[m] = table[ids[m]]` of BM rows at once; an id without a row gives zeros."""
    i, j = z.index
    columns = (j * BN + tw.arange(BN)).reshape(1, BN)
    if lies_inside(z, z.index):
        rows = ids.partition(BM, whole=True)[i].reshape(BM, 1)
        store_whole(z, table.gather(rows, columns))
    else:
        rows = ids.partition(BM)[i].reshape(BM, 1)
        z.store(table.gather(rows, columns))


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
    config = element_config("embedding", rows, table)
    kernel = config.applied_to(embedding_rows)
    return giving(kernel(rows.partition(config["BM"], config["PART"]), line, table), z)
