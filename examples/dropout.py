"""Dropout: the surviving elements are a function of a seed and of their index alone.

The mask is therefore never stored: the same call makes the same mask again, on any device.
"""

import numpy as np

import tilewright as tw
from tilewright import Cut, Mut, Ref, f32, i32
from tilewright.dims import B, N


@tw.kernel(deny_checks=True)
def dropout(z: Mut[f32, Cut[N, B]], x: Ref[f32, N], share: f32, seed: i32) -> None:
    """An element is zero with probability `share`; the others are scaled up."""
    keep = tw.rand((B,), f32, seed=seed, offset=z.index[0] * B) >= share
    z.store(tw.where(keep, x.load_like(z) / (1 - share), 0.0))


def main() -> None:
    """A third is dropped, the mean stays, and a second run drops the same elements."""
    x = tw.ones((100_000,), f32)
    one, two = tw.zeros((100_000,), f32), tw.zeros((100_000,), f32)
    dropout(one.partition(1024), x, 1 / 3, seed=7).sync()
    dropout(two.partition(256), x, 1 / 3, seed=7).sync()
    kept = one.numpy()
    np.testing.assert_array_equal(kept, two.numpy())
    assert set(np.unique(kept).round(4)) == {0.0, 1.5}
    dropped = float((kept == 0).mean())
    assert abs(dropped - 1 / 3) < 0.01, dropped
    print(f"dropped {dropped:.1%} of ones, and their mean is {kept.mean():.2f}")


if __name__ == "__main__":
    main()
