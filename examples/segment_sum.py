"""Segment sums: rows added by the segment id beside each row.

Where ids are sorted, most tiles of rows lie in one segment: those are summed in the block first,
and one row is added. Unsorted ids give the same sums.
"""

import numpy as np

import tilewright as tw
from tilewright import Accum, Const, Ref, f32, i32
from tilewright.dims import D, M, N


@tw.kernel(deny_checks=True)
def segment_sum(
    sums: Accum[f32, M, D], ids: Ref[i32, N], x: Ref[f32, N, D],
    *, BN: Const[int] = 32, BD: Const[int] = 32,
) -> None:  # fmt: skip
    """`sums[ids[n]] += x[n]`; rows without a segment are dropped."""
    i, j = tw.block_id(0), tw.block_id(1)
    segments = ids.partition(BN)[i]  # [BN]
    rows = x.partition(BN, BD)[i, j]  # [BN, BD], zeros behind the edge
    columns = j * BD + tw.arange(BD)
    inside = i * BN + tw.arange(BN) < N
    first = tw.min(tw.where(inside, segments, 2**31 - 1)).item()
    last = tw.max(tw.where(inside, segments, -(2**31))).item()
    if first == last:
        sums.add_at(tw.sum(rows, axis=0), first, columns)
    else:
        sums.add_at(rows, segments[:, None], columns, mask=inside[:, None])


def main() -> None:
    """Compare with NumPy, sorted and unsorted."""
    generator = np.random.default_rng(0)
    values = generator.standard_normal((1000, 50)).astype(np.float32)
    ids = generator.integers(0, 12, 1000).astype(np.int32)
    for how, numbers in (("sorted", np.sort(ids)), ("unsorted", ids)):
        sums = tw.zeros((10, 50), f32)  # the last two segments are left out
        segment_sum.grid(32, 2)(sums, tw.from_numpy(numbers), tw.from_numpy(values)).sync()
        expected = np.zeros((12, 50))
        np.add.at(expected, numbers, values)
        np.testing.assert_allclose(sums.numpy(), expected[:10], rtol=1e-4, atol=1e-4)
        print(f"sums of {ids.size} {how} rows: right")


if __name__ == "__main__":
    main()
