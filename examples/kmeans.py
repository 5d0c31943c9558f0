"""One step of k-means: the nearest centre of every point, and the sums of the new centres.

Blocks own the points they assign and share the sums, which are added to atomically and never read.
"""

import math

import numpy as np

import tilewright as tw
from tilewright import Accum, Cut, Mut, Ref, f32, i32
from tilewright.dims import BM, D, K, M


@tw.kernel(deny_checks=True)
def assign(
    nearest: Mut[i32, Cut[M, BM]], sums: Accum[f32, K, D], counts: Accum[i32, K],
    points: Ref[f32, M, D], centres: Ref[f32, K, D],
    *, BK: tw.Const[int] = 16, BD: tw.Const[int] = 8,
) -> None:  # fmt: skip
    """BM points; BK centres and BD channels are powers of two that hold all of them."""
    i = nearest.index[0]
    x, c = points.partition(BM, BD)[i, 0], centres.partition(BK, BD)[0, 0]
    distance = tw.sum(c * c, axis=1) - 2 * (x @ c.T)  # [BM, BK], without the norm of the points
    distance = tw.where(tw.arange(BK) < K, distance, math.inf)
    label = tw.argmin(distance, axis=1)  # [BM]
    nearest.store(label)
    inside = i * BM + tw.arange(BM) < M
    counts.add_at(1, label, mask=inside)
    sums.add_at(x, label[:, None], tw.arange(BD), mask=inside[:, None])


def main() -> None:
    """Compare with NumPy: 500 points around 10 centres."""
    random = np.random.default_rng(0)
    centres = random.uniform(-10, 10, (10, 5)).astype(np.float32)
    points = centres[random.integers(0, 10, 500)] + random.standard_normal((500, 5), np.float32)
    labels = ((points[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    nearest, sums, counts = tw.zeros((500,), i32), tw.zeros((10, 5), f32), tw.zeros((10,), i32)
    assign(
        nearest.partition(64), sums, counts, tw.from_numpy(points), tw.from_numpy(centres)
    ).sync()
    np.testing.assert_array_equal(nearest.numpy(), labels)
    np.testing.assert_array_equal(counts.numpy(), np.bincount(labels, minlength=10))
    wanted = np.zeros((10, 5))
    np.add.at(wanted, labels, points)
    np.testing.assert_allclose(sums.numpy(), wanted, rtol=1e-4, atol=1e-4)
    print("500 points, 10 centres: right")


if __name__ == "__main__":
    main()
