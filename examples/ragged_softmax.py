"""Softmax of packed rows of different lengths.

The output is partitioned by the offsets at which the rows begin. The offsets lie in device memory
and are never read by the host; whatever they hold, no two blocks write one element.
"""

import math
from itertools import pairwise

import numpy as np

import tilewright as tw
from tilewright import Cut, Mut, Ref, f32
from tilewright.dims import B, N


@tw.kernel(deny_checks=True)
def softmax(z: Mut[f32, Cut[N, B]], x: Ref[f32, N]) -> None:
    """A block gathers its whole row, and writes its piece of it."""
    low, high = z.segment
    lanes = tw.arange(B)
    top, total = tw.full((1,), -math.inf, f32), tw.zeros((1,), f32)
    for k in range(tw.cdiv(high - low, B)):
        at = low + k * B + lanes
        row = x.gather(at, mask=at < high, padding=-math.inf)
        higher = tw.maximum(top, tw.max(row, axis=0, keepdims=True))
        weights = tw.exp(row - higher)
        total = total * tw.exp(top - higher) + tw.sum(weights, axis=0, keepdims=True)
        top = higher
    z.store(tw.exp(x.load_like(z) - top) / total)


def main() -> None:
    """Compare with NumPy, row by row."""
    random = np.random.default_rng(0)
    lengths = random.integers(0, 300, 100)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    x = random.normal(size=offsets[-1]).astype(np.float32)
    z = tw.zeros(x.shape, f32)
    softmax(z.partition(128, segments=tw.from_numpy(offsets)), tw.from_numpy(x)).sync()
    wanted = np.empty_like(x)
    for begin, end in pairwise(offsets):
        powers = np.exp(x[begin:end] - x[begin:end].max(initial=-np.inf))
        wanted[begin:end] = powers / powers.sum()
    off = np.abs(z.numpy() - wanted).max()
    assert off < 1e-6
    print(f"softmax of {len(lengths)} rows, {len(x)} elements: off by at most {off:.1e}")


if __name__ == "__main__":
    main()
