"""Embedding: rows of a table by indices that only the device knows, without a check.

`gather` gives zeros for an index outside the table; `clip` clamps an index to its axis, for an
ordinary load of a tile.
"""

from typing import Literal

import numpy as np

import tilewright as tw
from tilewright import Cut, Mut, Ref, f16, u32
from tilewright.dims import BM, BN, D, M, T, V


@tw.kernel(deny_checks=True)
def embedding(z: Mut[T, Cut[M, BM], Cut[D, BN]], ids: Ref[u32, M], table: Ref[T, V, D]) -> None:
    """`z[m] = table[ids[m]]`; an id without a row gives zeros."""
    i, j = z.index
    rows = ids.partition(BM)[i]  # [BM]
    columns = j * BN + tw.arange(BN)  # [BN]
    z.store(table.gather(rows[:, None], columns))


@tw.kernel(deny_checks=True)
def gather_row(z: Mut[T, Literal[1], Cut[D, BN]], at: Ref[u32], x: Ref[T, M, D]) -> None:
    """`z = x[at]`: one row, such as that of the last token; `at` is clamped to the rows."""
    rows = x.partition(1, BN)
    z.store(rows[rows.clip(at.item(), 0), z.index[1]])


def main() -> None:
    """Compare with NumPy."""
    generator = np.random.default_rng(0)
    table = generator.standard_normal((1000, 300)).astype(np.float16)
    ids = generator.integers(0, 1000, 45).astype(np.uint32)
    ids[7] = 5000  # not in the table
    z = tw.zeros((45, 300), f16)
    embedding(z.partition(8, 64), tw.from_numpy(ids), tw.from_numpy(table)).sync()
    expected = table[np.minimum(ids, 999)]
    expected[7] = 0
    np.testing.assert_array_equal(z.numpy(), expected)
    print(f"embedding of {ids.size} ids: right")

    row = tw.zeros((1, 300), f16)
    last = tw.from_numpy(np.array(44, np.uint32))
    gather_row(row.partition(1, 64), last, z).sync()
    np.testing.assert_array_equal(row.numpy()[0], expected[44])
    print("gather_row of the last token: right")


if __name__ == "__main__":
    main()
