"""The norms of a transformer: RMS norm, RMS norm of the residual sum, and of each head."""

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

import tilewright as tw
from tilewright import Const, Cut, Mut, Ref, Tile, f16, f32, i32
from tilewright.dims import BM, BN, BS, D, H, M, N, S, T

Array = npt.NDArray[Any]


def normalized(rows: Tile[f32], weight: Tile[f32], columns: float, eps: f32) -> Tile[f32]:
    """`x / sqrt(mean(x²) + eps) * w` along the last axis; zeros behind the edge add nothing."""
    mean = tw.sum(rows * rows, axis=-1, keepdims=True) / columns
    return rows * tw.rsqrt(mean + eps) * weight


@tw.kernel(deny_checks=True)
def rms_norm(
    z: Mut[T, Cut[M, BM], Cut[N, BN]], x: Ref[T, M, N], weight: Ref[T, N], eps: f32
) -> None:
    """BM rows of up to BN columns."""
    rows = x.load_like(z).astype(f32)
    z.store(normalized(rows, weight.partition(BN)[0].astype(f32), float(N), eps).astype(z.dtype))


@tw.kernel(deny_checks=True)
def rms_norm_of_long_rows(
    z: Mut[T, Cut[M, Literal[1]], Cut[N, tw.All]], x: Ref[T, M, N], weight: Ref[T, N], eps: f32,
    *, BLOCK: Const[int] = 256,
) -> None:  # fmt: skip
    """One row of any length, BLOCK columns at a time: once for the mean, once for the result."""
    i = z.index[0]
    xs, weights, parts = x.partition(1, BLOCK), weight.partition(BLOCK), z.partition(1, BLOCK)
    squares = tw.zeros((1, BLOCK), f32)
    for j in range(xs.num_tiles(1)):
        squares += xs[i, j].astype(f32) ** 2
    scale = tw.rsqrt(tw.sum(squares) / float(N) + eps)
    for j in range(parts.num_tiles(1)):
        part = xs[i, j].astype(f32) * scale * weights[j].astype(f32)
        parts.store(part.astype(z.dtype), 0, j)


@tw.kernel(deny_checks=True)
def add_rms_norm(
    z: Mut[T, Cut[M, BM], Cut[N, BN]], total: Mut[T, Cut[M, BM], Cut[N, BN]],
    x: Ref[T, M, N], y: Ref[T, M, N], weight: Ref[T, N], eps: f32,
) -> None:  # fmt: skip
    """`total = x + y`, and its norm: a block owns the same piece of two outputs."""
    rows = x.load_like(total).astype(f32) + y.load_like(total).astype(f32)
    total.store(rows.astype(total.dtype))
    z.store(normalized(rows, weight.partition(BN)[0].astype(f32), float(N), eps).astype(z.dtype))


@tw.kernel(deny_checks=True)
def qk_norm(
    z: Mut[T, Cut[S, BS], Cut[H, Literal[1]], Cut[D, D]], x: Ref[T, S, H, D],
    q_weight: Ref[T, D], k_weight: Ref[T, D], queries: i32, eps: f32,
) -> None:  # fmt: skip
    """The norm of each head; the first `queries` heads have their own weight."""
    is_query = z.index[1] < queries
    weight = q_weight.partition(D)[0] if is_query else k_weight.partition(D)[0]
    heads = x.load_like(z).astype(f32)  # [BS, 1, D]
    z.store(normalized(heads, weight.astype(f32), float(D), eps).astype(z.dtype))


def expected(x: Array, weight: Array) -> Array:
    """The reference in NumPy."""
    wide = x.astype(np.float32)
    mean = np.mean(wide * wide, axis=-1, keepdims=True)
    result: Array = wide / np.sqrt(mean + 1e-6) * weight
    return result


def main() -> None:
    """Compare with NumPy, on rows shorter than their tile."""
    generator = np.random.default_rng(0)
    x, y = generator.standard_normal((2, 50, 1000)).astype(np.float16)
    weight = generator.standard_normal(1000).astype(np.float16)
    z, total = tw.zeros(x.shape, f16), tw.zeros(x.shape, f16)
    w = tw.from_numpy(weight)

    rms_norm(z.partition(4, 1024), tw.from_numpy(x), w, 1e-6).sync()
    np.testing.assert_allclose(z.numpy(), expected(x, weight), rtol=2e-3, atol=2e-3)
    rms_norm_of_long_rows(total.partition(1, None), tw.from_numpy(x), w, 1e-6).sync()
    np.testing.assert_allclose(total.numpy(), z.numpy(), rtol=2e-3, atol=2e-3)
    print(f"rms_norm of {x.shape}, by rows and by parts of rows: right")

    pieces = (z.partition(4, 1024), total.partition(4, 1024))
    add_rms_norm(*pieces, tw.from_numpy(x), tw.from_numpy(y), w, 1e-6).sync()
    np.testing.assert_array_equal(total.numpy(), x + y)
    np.testing.assert_allclose(z.numpy(), expected(x + y, weight), rtol=5e-3, atol=5e-3)
    print(f"add_rms_norm of {x.shape}: right")

    heads = generator.standard_normal((33, 6, 64)).astype(np.float16)
    q_weight, k_weight = generator.standard_normal((2, 64)).astype(np.float16)
    z = tw.zeros(heads.shape, f16)
    weights = (tw.from_numpy(q_weight), tw.from_numpy(k_weight))
    qk_norm(z.partition(16, 1, 64), tw.from_numpy(heads), *weights, 4, 1e-6).sync()
    each = np.stack([q_weight] * 4 + [k_weight] * 2)
    np.testing.assert_allclose(z.numpy(), expected(heads, each), rtol=2e-3, atol=2e-3)
    print("qk_norm of 4 query heads and 2 key heads: right")


if __name__ == "__main__":
    main()
