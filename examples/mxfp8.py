"""A linear layer on 8-bit floats: 32 elements share a scale, a power of two (mxfp8).

GPUs support it from sm_100 on; the CPU backend runs it everywhere.
"""

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

import tilewright as tw
from tilewright import Const, Cut, Mut, Ref, f8e4m3fn, f8e8m0fnu, f32
from tilewright.dims import BM, BN, G, K, M, N

Array = npt.NDArray[Any]

GROUP = 32  # elements with one scale


@tw.kernel(deny_checks=True)
def mxfp8_linear(
    z: Mut[f32, Cut[M, BM], Cut[N, BN]],
    x: Ref[f8e4m3fn, M, K], x_scale: Ref[f8e8m0fnu, M, G],
    weight: Ref[f8e4m3fn, N, K], weight_scale: Ref[f8e8m0fnu, N, G],
    *, BK: Const[int] = 128,
) -> None:  # fmt: skip
    """`z = x @ weight.T`: tiles of the weight are read transposed."""
    i, j = z.index
    xs, x_scales = x.partition(BM, BK), x_scale.partition(BM, BK // GROUP)
    ws = weight.partition(BK, BN, order=(1, 0))
    w_scales = weight_scale.partition(BK // GROUP, BN, order=(1, 0))
    acc = tw.zeros((BM, BN), f32)
    for k in range(xs.num_tiles(1)):
        acc = tw.mma_scaled(xs[i, k], ws[k, j], acc, x_scales[i, k], w_scales[k, j])
    z.store(acc)


def quantized(x: Array) -> tuple[Array, Array]:
    """The elements, and a scale for each group along the last axis."""
    groups = x.reshape(len(x), -1, GROUP)
    largest = np.abs(groups).max(axis=-1, keepdims=True)
    scales = np.exp2(np.ceil(np.log2(largest / 448)))  # 448 is the largest number of f8e4m3fn
    elements = (groups / scales).reshape(x.shape).astype(ml_dtypes.float8_e4m3fn)
    return elements, scales[..., 0].astype(ml_dtypes.float8_e8m0fnu)


def dequantized(elements: Array, scales: Array) -> Array:
    """The numbers that elements and scales represent."""
    return elements.astype(np.float64) * scales.astype(np.float64).repeat(GROUP, axis=-1)


def main() -> None:
    """Compare with NumPy, on the exact numbers that the 8 bits hold."""
    generator = np.random.default_rng(0)
    x = quantized(generator.standard_normal((50, 384)))
    weight = quantized(generator.standard_normal((70, 384)))
    with tw.device("cpu"):  # a GPU from sm_100 on works as well
        z = tw.zeros((50, 70), f32)
        mxfp8_linear(z.partition(32, 32), *map(tw.from_numpy, (*x, *weight))).sync()

    expected = dequantized(*x) @ dequantized(*weight).T
    error = np.linalg.norm(z.numpy() - expected) / np.linalg.norm(expected)
    assert error < 1e-5, error
    print(f"mxfp8 layer of {x[0].shape} and {weight[0].shape}: off by {error:.1e}")


if __name__ == "__main__":
    main()
