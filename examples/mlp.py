"""A small network: a linear layer fused with bias and ReLU, then a matrix-vector product.

The second kernel is queued behind the first without a wait.
"""

import numpy as np

import tilewright as tw
from tilewright import Const, Cut, Mut, Ref, f32
from tilewright.dims import BM, BN, K, M, N


@tw.kernel(deny_checks=True)
def linear(
    z: Mut[f32, Cut[M, BM], Cut[N, BN]],
    x: Ref[f32, M, K], weight: Ref[f32, K, N], bias: Ref[f32, N],
    *, RELU: Const[bool] = False, BK: Const[int] = 32,
) -> None:  # fmt: skip
    """`z = x @ weight + bias`, with an optional ReLU."""
    i, j = z.index
    xs, weights = x.partition(BM, BK), weight.partition(BK, BN)
    acc = tw.zeros((BM, BN), f32)
    for k in range(xs.num_tiles(1)):
        acc = tw.mma(xs[i, k], weights[k, j], acc)
    acc += bias.partition(BN)[j]
    z.store(tw.maximum(acc, 0.0) if RELU else acc)


@tw.kernel(deny_checks=True)
def matvec(
    z: Mut[f32, Cut[M, BM]], x: Ref[f32, M, K], y: Ref[f32, K], *, BK: Const[int] = 32
) -> None:
    """`z = x @ y`: BM rows, with a product and a sum for each range of columns."""
    xs, ys = x.partition(BM, BK), y.partition(BK)
    acc = tw.zeros((BM,), f32)
    for k in range(xs.num_tiles(1)):
        acc += tw.sum(xs[z.index[0], k] * ys[k], axis=1)
    z.store(acc)


def main() -> None:
    """Compare with NumPy."""
    generator = np.random.default_rng(0)
    x = generator.standard_normal((100, 70)).astype(np.float32)
    w1 = generator.standard_normal((70, 150)).astype(np.float32)
    b1, w2 = generator.standard_normal((2, 150)).astype(np.float32)
    hidden, z = tw.zeros((100, 150), f32), tw.zeros((100,), f32)
    layer = (tw.from_numpy(array) for array in (x, w1, b1))
    linear(hidden.partition(32, 32), *layer, RELU=True).submit()
    matvec(z.partition(16), hidden, tw.from_numpy(w2)).submit()

    expected = np.maximum(x @ w1 + b1, 0) @ w2
    np.testing.assert_allclose(z.numpy(), expected, rtol=1e-4, atol=1e-3)
    print(f"mlp of {x.shape}: right")


if __name__ == "__main__":
    main()
