"""Split-K: a product of two long thin matrices, whose few output tiles have shared sums.

Each block multiplies a range of K and adds its tile to the product. The order of the additions is
undefined, so float sums differ in the last bits from run to run.
"""

import numpy as np

import tilewright as tw
from tilewright import Accum, Const, Ref, f32
from tilewright.dims import K, M, N, T


@tw.kernel(deny_checks=True)
def split_k(
    z: Accum[f32, M, N], x: Ref[T, M, K], y: Ref[T, K, N],
    *, BM: Const[int] = 32, BN: Const[int] = 32, BK: Const[int] = 32,
) -> None:  # fmt: skip
    """`z += x @ y`: block (i, j, s) takes the s-th range of the tiles along K."""
    i, j, split = tw.block_id(0), tw.block_id(1), tw.block_id(2)
    xs, ys = x.partition(BM, BK), y.partition(BK, BN)
    stretch = tw.cdiv(xs.num_tiles(1), tw.num_blocks(2))
    acc = tw.zeros((BM, BN), f32)
    for k in range(split * stretch, min((split + 1) * stretch, xs.num_tiles(1))):
        acc = tw.mma(xs[i, k], ys[k, j], acc)
    z.add(acc, i, j)


def main() -> None:
    """Compare with NumPy."""
    generator = np.random.default_rng(0)
    a = generator.standard_normal((50, 2000)).astype(np.float16)
    b = generator.standard_normal((2000, 40)).astype(np.float16)
    z = tw.zeros((50, 40), f32)
    split_k.grid(2, 2, 7)(z, tw.from_numpy(a), tw.from_numpy(b)).sync()
    expected = a.astype(np.float64) @ b.astype(np.float64)
    error = np.linalg.norm(z.numpy() - expected) / np.linalg.norm(expected)
    assert error < 1e-5, error
    print(f"product of {a.shape} and {b.shape}, split in 7: off by {error:.1e}")


if __name__ == "__main__":
    main()
