"""A linear layer on 4-bit floats: 16 elements share a scale, an 8-bit float (nvfp4).

In memory two elements share a byte, which a kernel unpacks, so no two blocks share one. GPUs
support it from sm_100 on; the CPU backend runs it everywhere.
"""

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

import tilewright as tw
from tilewright import Const, Cut, Mut, Ref, f4e2m1fn, f8e4m3fn, f32, u8
from tilewright.dims import BM, BN, G, H, M, N

Array = npt.NDArray[Any]

GROUP = 16  # elements with one scale


@tw.kernel(deny_checks=True)
def nvfp4_linear(
    z: Mut[f32, Cut[M, BM], Cut[N, BN]],
    x: Ref[u8, M, H], x_scale: Ref[f8e4m3fn, M, G],
    weight: Ref[u8, N, H], weight_scale: Ref[f8e4m3fn, N, G],
    *, BK: Const[int] = 128,
) -> None:  # fmt: skip
    """`z = x @ weight.T`, where a row of K elements has H = K / 2 bytes."""
    i, j = z.index
    xs, ws = x.partition(BM, BK // 2), weight.partition(BN, BK // 2)
    x_scales = x_scale.partition(BM, BK // GROUP)
    w_scales = weight_scale.partition(BK // GROUP, BN, order=(1, 0))
    acc = tw.zeros((BM, BN), f32)
    for k in range(xs.num_tiles(1)):
        rows = tw.unpack(xs[i, k], f4e2m1fn)  # [BM, BK]
        columns = tw.unpack(ws[j, k], f4e2m1fn).T  # [BK, BN]
        acc = tw.mma_scaled(rows, columns, acc, x_scales[i, k], w_scales[k, j])
    z.store(acc)


def quantized(x: Array) -> tuple[Array, Array]:
    """The elements as 4-bit floats, and a scale for each group along the last axis."""
    groups = x.reshape(len(x), -1, GROUP)
    largest = np.abs(groups).max(axis=-1, keepdims=True)
    scales = (largest / 6).astype(ml_dtypes.float8_e4m3fn)  # 6 is the largest number of f4e2m1fn
    elements = (groups / scales.astype(np.float64)).reshape(x.shape)
    return elements.astype(ml_dtypes.float4_e2m1fn), scales[..., 0]


def packed(elements: Array) -> Array:
    """Two neighbours in a byte, the first in the low half."""
    nibbles = elements.view(np.uint8) & 15
    return (nibbles[:, 0::2] | nibbles[:, 1::2] << 4).astype(np.uint8)


def dequantized(elements: Array, scales: Array) -> Array:
    """The numbers that elements and scales represent."""
    return elements.astype(np.float64) * scales.astype(np.float64).repeat(GROUP, axis=-1)


def main() -> None:
    """Compare with NumPy, on the exact numbers that the 4 bits hold."""
    generator = np.random.default_rng(0)
    x = quantized(generator.standard_normal((50, 384)))
    weight = quantized(generator.standard_normal((70, 384)))
    arrays = (packed(x[0]), x[1], packed(weight[0]), weight[1])
    with tw.device("cpu"):  # a GPU from sm_100 on works as well
        z = tw.zeros((50, 70), f32)
        nvfp4_linear(z.partition(32, 32), *map(tw.from_numpy, arrays)).sync()

    expected = dequantized(*x) @ dequantized(*weight).T
    error = np.linalg.norm(z.numpy() - expected) / np.linalg.norm(expected)
    assert error < 1e-5, error
    print(f"nvfp4 layer of {x[0].shape} and {weight[0].shape}: off by {error:.1e}")


if __name__ == "__main__":
    main()
