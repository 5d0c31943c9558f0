"""A persistent matrix product with no check left inside, and the ledger that says so."""

import numpy as np

import tilewright as tw
from tilewright import Const, Mapped, Ref, f16, f32
from tilewright.dims import BM, BN, K, M, N, T


@tw.kernel(deny_checks=True)
def gemm(z: Mapped[T, BM, BN], x: Ref[T, M, K], y: Ref[T, K, N], *, BK: Const[int] = 64) -> None:
    """`z = x @ y`, summed in f32."""
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
    x, y, z = tw.from_numpy(a), tw.from_numpy(b), tw.zeros((300, 500), f16)
    gemm(z.partition(128, 128).persistent(group=(8, 1)), x, y).sync()

    expected = a.astype(np.float64) @ b.astype(np.float64)
    error = np.linalg.norm(z.numpy() - expected) / np.linalg.norm(expected)
    assert error < 1e-3, error
    print(f"gemm of {a.shape} and {b.shape}: off by {error:.1e}")
    print("its checks: tilewright explain examples/gemm.py::gemm")


if __name__ == "__main__":
    main()
