"""Histogram in a shared accumulator: an `Accum` is added to atomically, and never read.

Values without a bin are dropped without a check. A kernel without a partitioned output is launched
on a grid.
"""

import numpy as np

import tilewright as tw
from tilewright import Accum, Const, Ref, i32
from tilewright.dims import K, N


@tw.kernel(deny_checks=True)
def histogram(counts: Accum[i32, K], x: Ref[i32, N], *, B: Const[int] = 256) -> None:
    """`counts[v] += 1` for every v in x; equal values in one tile are counted each."""
    i = tw.block_id(0)
    counts.add_at(1, x.partition(B)[i], mask=i * B + tw.arange(B) < N)


@tw.kernel(deny_checks=True)
def extremes(
    least: Accum[i32, K], most: Accum[i32, K], x: Ref[i32, N], *, B: Const[int] = 256
) -> None:
    """The least and the greatest number: each block reduces its own, then all share one element."""
    i = tw.block_id(0)
    tile = x.partition(B)[i]
    inside = i * B + tw.arange(B) < N
    least.min(tw.min(tw.where(inside, tile, 2**31 - 1)), 0)
    most.max(tw.max(tw.where(inside, tile, -(2**31))), 0)


def main() -> None:
    """Compare with NumPy."""
    values = np.random.default_rng(0).integers(-5, 105, 10_000).astype(np.int32)
    x, blocks = tw.from_numpy(values), -(-values.size // 256)
    counts = tw.zeros((100,), i32)
    histogram.grid(blocks)(counts, x).sync()
    kept = values[(values >= 0) & (values < 100)]
    np.testing.assert_array_equal(counts.numpy(), np.bincount(kept, minlength=100))
    print(f"histogram of {values.size} numbers, {values.size - kept.size} of them outside: right")

    least, most = tw.full((1,), 2**31 - 1, i32), tw.full((1,), -(2**31), i32)
    extremes.grid(blocks)(least, most, x).sync()
    low, high = np.min(values), np.max(values)
    assert (least.numpy()[0], most.numpy()[0]) == (low, high)
    print(f"from {low} to {high}: right")


if __name__ == "__main__":
    main()
