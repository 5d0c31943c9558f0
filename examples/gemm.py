"""Matrix products without checks, one tile to a block or persistent, and their ledger."""

import numpy as np

import tilewright as tw
from tilewright import Const, Cut, Mapped, Mut, Ref, f16, f32
from tilewright.dims import BM, BN, K, M, N, T


class SUM(tw.AnyDType):
    """dtype of the result."""


@tw.kernel(deny_checks=True)
def gemm_tile(
    z: Mut[SUM, Cut[M, BM], Cut[N, BN]], x: Ref[T, M, K], y: Ref[T, K, N], *, BK: Const[int] = 64
) -> None:
    """`z = x @ y`: one tile to a block, factors of one dtype and a product of another."""
    i, j = z.index
    xs, ys = x.partition(BM, BK), y.partition(BK, BN)
    acc = tw.zeros((BM, BN), f32)
    for k in range(xs.num_tiles(1)):
        acc = tw.mma(xs[i, k], ys[k, j], acc)
    z.store(acc.astype(z.dtype))


@tw.kernel(deny_checks=True)
def gemm(
    z: Mapped[T, Cut[M, BM], Cut[N, BN]], x: Ref[T, M, K], y: Ref[T, K, N], *, BK: Const[int] = 64
) -> None:
    """`z = x @ y` by persistent blocks, in an order that shares operands in the cache."""
    xs, ys = x.partition(BM, BK), y.partition(BK, BN)
    for at in z.indices():  # this block's share of the output, disjoint from every other's
        i, j = at
        acc = tw.zeros((BM, BN), f32)
        for k in range(xs.num_tiles(1)):
            acc = tw.mma(xs[i, k], ys[k, j], acc)
        z.store(acc.astype(z.dtype), at)


def main() -> None:
    """Compare with NumPy, on sizes that no tile divides."""
    generator = np.random.default_rng(0)
    a = generator.standard_normal((300, 200)).astype(np.float16)
    b = generator.standard_normal((200, 500)).astype(np.float16)
    x, y = tw.from_numpy(a), tw.from_numpy(b)
    half, single = tw.zeros((300, 500), f16), tw.zeros((300, 500), f32)
    gemm(half.partition(128, 128).persistent(group=(8, 1)), x, y).submit()
    gemm_tile(single.partition(64, 64), x, y).submit()

    expected = a.astype(np.float64) @ b.astype(np.float64)
    for z in (half, single):
        error = np.linalg.norm(z.numpy() - expected) / np.linalg.norm(expected)
        assert error < 1e-3, error
        print(f"gemm of {a.shape} and {b.shape} into {z.dtype.label}: off by {error:.1e}")
    print("its checks: tilewright explain examples/gemm.py::gemm")


if __name__ == "__main__":
    main()
