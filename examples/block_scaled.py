"""Block-scaled product of 8-bit floats: a scale for 32 elements of a row of x, and 32 x 32 of y.

Each part of K is multiplied in 8 bits and summed in 32; the scales are applied to that sum, one
multiplication for each part and element.
"""

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

import tilewright as tw
from tilewright import Const, Cut, Mut, Ref, f8e4m3fn, f32
from tilewright.dims import BM, BN, K, M, N


class ROW_PARTS(tw.Dim):  # noqa: N801
    """Parts of K with a scale."""


class COLUMN_PARTS(tw.Dim):  # noqa: N801
    """Parts of N with a scale."""


@tw.kernel(deny_checks=True)
def scaled_product(
    z: Mut[f32, Cut[M, BM], Cut[N, BN]], x: Ref[f8e4m3fn, M, K], y: Ref[f8e4m3fn, K, N],
    x_scales: Ref[f32, M, ROW_PARTS], y_scales: Ref[f32, ROW_PARTS, COLUMN_PARTS],
    *, BK: Const[int] = 32,
) -> None:  # fmt: skip
    """`z = sum over parts of (x @ y) * x_scale * y_scale`; BN columns of y have one scale."""
    tw.require(tw.cdiv(K, BK) == ROW_PARTS)
    tw.require(tw.cdiv(N, BN) == COLUMN_PARTS)
    i, j = z.index
    xs, ys = x.partition(BM, BK), y.partition(BK, BN)
    rows, squares = x_scales.partition(BM, 1), y_scales.partition(1, 1)
    acc = tw.zeros((BM, BN), f32)
    for k in range(xs.num_tiles(1)):
        acc += (xs[i, k] @ ys[k, j]) * (rows[i, k] * squares[k, j])
    z.store(acc)


Array = npt.NDArray[np.float32]


def quantised(x: Array, rows: int, columns: int) -> tuple[npt.NDArray[Any], Array, Array]:
    """8-bit floats, the scale of each block of elements, and the numbers that both represent."""
    blocks = x.reshape(x.shape[0] // rows, rows, x.shape[1] // columns, columns)
    scales = (np.abs(blocks).max(axis=(1, 3)) / 448).astype(np.float32)
    small = (blocks / scales[:, None, :, None]).astype(ml_dtypes.float8_e4m3fn)
    again = small.astype(np.float32) * scales[:, None, :, None]
    return small.reshape(x.shape), scales, again.reshape(x.shape)


def main() -> None:
    """Compare with NumPy: 48 x 96 by 96 x 64."""
    random = np.random.default_rng(0)
    x, y = (random.standard_normal(shape).astype(np.float32) for shape in ((48, 96), (96, 64)))
    x8, x_scales, x_again = quantised(x, 1, 32)
    y8, y_scales, y_again = quantised(y, 32, 32)
    z = tw.zeros((48, 64), f32)
    scaled_product(z.partition(16, 32), *map(tw.from_numpy, (x8, y8, x_scales, y_scales))).sync()
    error = np.abs(z.numpy() - x_again @ y_again).max()
    assert error < 1e-4, error
    off = np.abs(z.numpy() - x @ y).max()
    print(f"8-bit product: off by at most {error:.1e}, and {off:.2f} with the quantisation")


if __name__ == "__main__":
    main()
