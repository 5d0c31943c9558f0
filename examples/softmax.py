"""Softmax of every row in one pass: one read and one write, for any number of columns."""

import math

import numpy as np

import tilewright as tw
from tilewright import Cut, Mut, Ref, f32
from tilewright.dims import B, D, M, N


@tw.kernel(deny_checks=True)
def softmax(z: Mut[f32, Cut[M, B], Cut[N, D]], x: Ref[f32, M, N]) -> None:
    """B rows of up to D columns each; columns behind the edge count as minus infinity."""
    rows = x.load_like(z, padding=-math.inf)
    powers = tw.exp(rows - tw.max(rows, axis=1, keepdims=True))
    z.store(powers / tw.sum(powers, axis=1, keepdims=True))


def main() -> None:
    """Compare with NumPy."""
    host = np.random.default_rng(0).standard_normal((100, 1000)).astype(np.float32)
    x, z = tw.from_numpy(host), tw.zeros(host.shape, f32)
    columns = 1 << (host.shape[1] - 1).bit_length()  # tile extents are powers of two
    softmax(z.partition(4, columns), x).sync()

    powers = np.exp(host - host.max(axis=1, keepdims=True))
    expected = powers / powers.sum(axis=1, keepdims=True)
    error = np.abs(z.numpy() - expected).max()
    assert error < 1e-6, error
    print(f"softmax of {host.shape}: off by at most {error:.1e}")


if __name__ == "__main__":
    main()
