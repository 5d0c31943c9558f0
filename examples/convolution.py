"""Convolution as a sum of matrix products, without an im2col matrix.

Each of the R x S taps of the filter is a product of shifted pixels with the tap's matrix of
channels. Pixels outside the image read as zero, so the border needs no special case.
"""

from typing import Literal

import numpy as np

import tilewright as tw
from tilewright import Const, Cut, Mut, Ref, f32
from tilewright.dims import BM, BN, B, C, H, K, R, S, W


@tw.kernel(deny_checks=True)
def convolution(
    z: Mut[f32, Cut[B, Literal[1]], Cut[H, Literal[1]], Cut[W, BM], Cut[K, BN]],
    x: Ref[f32, B, H, W, C], filters: Ref[f32, R, S, C, K],
    *, R: Const[int], S: Const[int], BC: Const[int] = 16,
) -> None:  # fmt: skip
    """BM pixels of a row by BN channels; the centre of the filter lies on the pixel."""
    b, h, i, n = z.index
    columns = i * BM + tw.arange(BM)[:, None]  # [BM, 1]
    weights = filters.partition(1, 1, BC, BN)
    acc = tw.zeros((BM, BN), f32)
    for r in tw.static_range(R):
        for s in tw.static_range(S):
            for c in range(weights.num_tiles(2)):
                channels = c * BC + tw.arange(BC)
                pixels = x.gather(b, h + r - R // 2, columns + s - S // 2, channels)  # [BM, BC]
                acc = tw.mma(pixels, weights[r, s, c, n].reshape(BC, BN), acc)
    z.store(acc.reshape(1, 1, BM, BN))


def main() -> None:
    """Compare with NumPy: 2 images of 9 x 21 pixels, from 20 to 24 channels."""
    random = np.random.default_rng(0)
    x = random.standard_normal((2, 9, 21, 20)).astype(np.float32)
    for r, s in ((1, 1), (3, 3), (5, 3)):
        filters = random.standard_normal((r, s, 20, 24)).astype(np.float32)
        around = np.pad(x, ((0, 0), (r // 2, r // 2), (s // 2, s // 2), (0, 0)))
        windows = np.lib.stride_tricks.sliding_window_view(around, (r, s), axis=(1, 2))
        wanted = np.einsum("bhwcrs,rsck->bhwk", windows, filters)
        z = tw.zeros(wanted.shape, f32)
        convolution(z.partition(1, 1, 16, 16), tw.from_numpy(x), tw.from_numpy(filters)).sync()
        error = np.abs(z.numpy() - wanted).max()
        assert error < 1e-3, error
        print(f"{r} x {s} filter: off by at most {error:.1e}")


if __name__ == "__main__":
    main()
