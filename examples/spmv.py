"""Product of a sparse matrix in compressed rows with a vector.

A block owns the results of B rows. All rows iterate over their elements side by side, for as many
steps as the longest row has; offsets and columns come from memory and may hold anything, because a
gather gives zero for indices outside.
"""

import numpy as np

import tilewright as tw
from tilewright import Cut, Mut, Ref, f32, i32
from tilewright.dims import B, K, M, N


class STARTS(tw.Dim):
    """The number of rows plus one."""


@tw.kernel(deny_checks=True)
def spmv(
    z: Mut[f32, Cut[M, B]], starts: Ref[i32, STARTS], columns: Ref[i32, K], values: Ref[f32, K],
    x: Ref[f32, N],
) -> None:  # fmt: skip
    """`z[r] = sum(values[k] * x[columns[k]] for k in range(starts[r], starts[r + 1]))`."""
    tw.require(STARTS == M + 1)
    rows = z.index[0] * B + tw.arange(B)
    is_row = rows < M  # those behind the last have no elements
    at, end = starts.gather(rows, mask=is_row), starts.gather(rows + 1, mask=is_row)
    acc = tw.zeros((B,), f32)
    for _ in range(tw.max(tw.where(is_row, end - at, 0)).item()):
        inside = at < end
        acc += values.gather(at, mask=inside) * x.gather(columns.gather(at, mask=inside))
        at += 1
    z.store(acc)


def main() -> None:
    """Compare with a dense product: 300 rows of 0 to 20 elements."""
    random = np.random.default_rng(0)
    lengths = random.integers(0, 20, 300)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    columns = random.integers(0, 500, starts[-1]).astype(np.int32)
    values = random.standard_normal(starts[-1]).astype(np.float32)
    x = random.standard_normal(500).astype(np.float32)
    dense = np.zeros((300, 500))
    np.add.at(dense, (np.repeat(np.arange(300), lengths), columns), values)
    z = tw.zeros((300,), f32)
    spmv(z.partition(64), *map(tw.from_numpy, (starts, columns, values, x))).sync()
    error = np.abs(z.numpy() - dense @ x).max()
    assert error < 1e-4, error
    print(f"{starts[-1]} elements in 300 rows: off by at most {error:.1e}")


if __name__ == "__main__":
    main()
