"""Batched matrix product: an output of three axes, with a plane of blocks for each matrix."""

from typing import Literal

import numpy as np

import tilewright as tw
from tilewright import Const, Cut, Mut, Ref, f16, f32
from tilewright.dims import BM, BN, B, K, M, N, T


@tw.kernel(deny_checks=True)
def batch_matmul(
    z: Mut[T, Cut[B, Literal[1]], Cut[M, BM], Cut[N, BN]],
    x: Ref[T, B, M, K],
    y: Ref[T, B, K, N],
    *,
    BK: Const[int] = 32,
) -> None:
    """`z[b] = x[b] @ y[b]`, accumulated in f32."""
    b, i, j = z.index
    xs, ys = x[b].partition(BM, BK), y[b].partition(BK, BN)
    acc = tw.zeros((BM, BN), f32)
    for k in range(xs.num_tiles(1)):
        acc = tw.mma(xs[i, k], ys[k, j], acc)
    z[b].store(acc.astype(z.dtype))


def main() -> None:
    """Compare with NumPy."""
    generator = np.random.default_rng(0)
    a = generator.standard_normal((5, 70, 100)).astype(np.float16)
    b = generator.standard_normal((5, 100, 90)).astype(np.float16)
    z = tw.zeros((5, 70, 90), f16)
    batch_matmul(z.partition(1, 32, 32), tw.from_numpy(a), tw.from_numpy(b)).sync()

    expected = a.astype(np.float64) @ b.astype(np.float64)
    error = np.linalg.norm(z.numpy() - expected) / np.linalg.norm(expected)
    assert error < 1e-3, error
    print(f"5 products of {a.shape[1:]} and {b.shape[1:]}: off by {error:.1e}")


if __name__ == "__main__":
    main()
