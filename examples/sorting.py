"""Sorting of rows within a tile, the greatest elements of each row, and stream compaction.

Compaction: blocks first count their matching elements; the running sums of the counts cut the
result into segments, and each block of the second launch writes its own segment.
"""

import math
from typing import Literal

import numpy as np

import tilewright as tw
from tilewright import Const, Cut, Mut, Ref, f32, i32
from tilewright.dims import B, D, K, M, N


@tw.kernel(deny_checks=True)
def sort_rows(z: Mut[f32, Cut[M, B], Cut[N, D]], x: Ref[f32, M, N]) -> None:
    """Rows of up to D numbers, in ascending order; columns behind the edge come last."""
    z.store(tw.sort(x.load_like(z, padding=math.inf)))


@tw.kernel(deny_checks=True)
def best_of_rows(
    values: Mut[f32, Cut[M, B], Cut[K, K]], places: Mut[i32, Cut[M, B], Cut[K, K]],
    x: Ref[f32, M, N], *, D: Const[int] = 128,
) -> None:  # fmt: skip
    """The K greatest numbers of each row and their indices; D holds a row."""
    best, at = tw.top_k(x.partition(B, D, padding=-math.inf)[values.index[0], 0], K)
    values.store(best)
    places.store(at)


class PARTS(tw.Dim):
    """Blocks, each with a part of the numbers."""


@tw.kernel(deny_checks=True)
def count(counts: Mut[i32, Cut[PARTS, Literal[1]]], x: Ref[f32, N], *, B: Const[int] = 64) -> None:
    """The number of positive numbers in each part."""
    tw.require(tw.cdiv(N, B) == PARTS)
    counts.store(tw.sum((x.partition(B)[counts.index[0]] > 0).astype(i32)).reshape(1))


@tw.kernel(deny_checks=True)
def keep(z: Mut[f32, Cut[M, B]], x: Ref[f32, N]) -> None:
    """The positive numbers of part s, in order, into segment s."""
    tw.require(z.segments == tw.cdiv(N, B))
    t = x.partition(B)[z.index[0]]
    chosen = t > 0
    z.scatter(t, tw.cumsum(chosen.astype(i32)) - 1, mask=chosen)


def main() -> None:
    """Compare with NumPy."""
    x = np.random.default_rng(0).standard_normal((30, 100)).astype(np.float32)
    z, best, at = tw.zeros(x.shape, f32), tw.zeros((30, 4), f32), tw.zeros((30, 4), i32)
    dx = tw.from_numpy(x)
    sort_rows(z.partition(8, 128), dx).submit()
    best_of_rows(best.partition(8, 4), at.partition(8, 4), dx).submit()
    np.testing.assert_array_equal(z.numpy(), np.sort(x, axis=1))
    np.testing.assert_array_equal(at.numpy(), np.argsort(-x, axis=1)[:, :4])
    np.testing.assert_array_equal(best.numpy(), -np.sort(-x, axis=1)[:, :4])
    print("30 rows sorted, and the best 4 of each: right")

    flat = x.reshape(-1)
    parts = tw.cdiv(flat.size, 64)
    counts = tw.zeros((parts,), i32)
    count(counts.partition(1), tw.from_numpy(flat)).sync()
    offsets = np.concatenate([[0], np.cumsum(counts.numpy())]).astype(np.int32)
    kept = tw.zeros((int(offsets[-1]),), f32)
    keep(kept.partition(64, segments=tw.from_numpy(offsets)), tw.from_numpy(flat)).sync()
    np.testing.assert_array_equal(kept.numpy(), flat[flat > 0])
    print(f"{offsets[-1]} of {flat.size} numbers kept in order: right")


if __name__ == "__main__":
    main()
