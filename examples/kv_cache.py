"""KV cache update: keys and values of new tokens at a position that only the device knows.

The walk covers exactly the new rows: one range for both outputs, the same in all blocks, clipped to
the cache. Each row is written by one block, for any start.
"""

from typing import Literal

import numpy as np

import tilewright as tw
from tilewright import Cut, Mapped, Ref, f16, i32
from tilewright.dims import BH, D, H, L, S, T


@tw.kernel(deny_checks=True)
def update_cache(
    keys: Mapped[T, Cut[L, Literal[1]], Cut[H, BH], Cut[D, D]],
    values: Mapped[T, Cut[L, Literal[1]], Cut[H, BH], Cut[D, D]],
    k: Ref[T, S, H, D], v: Ref[T, S, H, D], start: Ref[i32],
) -> None:  # fmt: skip
    """`keys[start : start + S] = k`, and likewise the values."""
    ks, vs = k.partition(1, BH, D), v.partition(1, BH, D)
    first = start.item()
    for at in keys.indices_with(values, within=((first, first + S), None, None)):
        s, h, d = at
        token = ks.clip(s - first, 0)
        keys.store(ks[token, h, d], at)
        values.store(vs[token, h, d], at)


def main() -> None:
    """Two consecutive updates; the second one reaches beyond the end of the cache."""
    generator = np.random.default_rng(0)
    keys, values = tw.zeros((40, 6, 16), f16), tw.zeros((40, 6, 16), f16)
    expected = np.zeros((2, 40, 6, 16), np.float16)
    pieces = [x.partition(1, 2, 16).persistent(blocks=4) for x in (keys, values)]
    for first, tokens in ((3, 9), (30, 14)):
        new = generator.standard_normal((2, tokens, 6, 16)).astype(np.float16)
        start = tw.from_numpy(np.array(first, np.int32))
        update_cache(*pieces, tw.from_numpy(new[0]), tw.from_numpy(new[1]), start).submit()
        expected[:, first : first + tokens] = new[:, : 40 - first]
    np.testing.assert_array_equal(keys.numpy(), expected[0])
    np.testing.assert_array_equal(values.numpy(), expected[1])
    print("rows 3 to 11 and 30 to 39 of the cache: right")


if __name__ == "__main__":
    main()
