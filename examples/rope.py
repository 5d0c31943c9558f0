"""Rotary position embedding: pairs of channels rotated by an angle proportional to the position.

Only the device knows the start of the text, so rows of the table are gathered.
"""

from typing import Literal

import numpy as np
import numpy.typing as npt

import tilewright as tw
from tilewright import Cut, Mut, Ref, f16, f32, i32
from tilewright.dims import BS, D, H, P, S, T


class HALF(tw.Dim):
    """Half of D: the number of pairs, and of angles."""


@tw.kernel(deny_checks=True)
def rope(
    z: Mut[T, Cut[S, BS], Cut[H, Literal[1]], Cut[D, D]], x: Ref[T, S, H, D],
    cosines: Ref[f32, P, HALF], sines: Ref[f32, P, HALF], start: Ref[i32],
) -> None:  # fmt: skip
    """Head h of token s, rotated by the angles of position `start + s`."""
    i, h, _ = z.index
    half = D // 2
    tw.require(half == HALF)
    places = start.item() + i * BS + tw.arange(BS)  # [BS]
    cos = cosines.gather(places[:, None], tw.arange(half))[:, None, :]  # [BS, 1, half]
    sin = sines.gather(places[:, None], tw.arange(half))[:, None, :]
    halves = x.partition(BS, 1, half)
    one, two = halves[i, h, 0].astype(f32), halves[i, h, 1].astype(f32)
    turned = z.partition(BS, 1, half)
    turned.store((one * cos - two * sin).astype(z.dtype), 0, 0, 0)
    turned.store((two * cos + one * sin).astype(z.dtype), 0, 0, 1)


def angles(places: int, half: int) -> npt.NDArray[np.float32]:
    """The angle of each pair at each position."""
    speeds = 10_000.0 ** (-np.arange(half) / half)
    return np.outer(np.arange(places), speeds).astype(np.float32)


def main() -> None:
    """Compare with NumPy, in the middle of a text."""
    x = np.random.default_rng(0).standard_normal((21, 4, 64)).astype(np.float16)
    table, first = angles(100, 32), 17
    z = tw.zeros(x.shape, f16)
    cosines, sines = tw.from_numpy(np.cos(table)), tw.from_numpy(np.sin(table))
    start = tw.from_numpy(np.array(first, np.int32))
    rope(z.partition(8, 1, 64), tw.from_numpy(x), cosines, sines, start).sync()

    one, two = np.split(x.astype(np.float32), 2, axis=-1)
    cos, sin = (f(table)[first : first + len(x), None] for f in (np.cos, np.sin))
    expected = np.concatenate([one * cos - two * sin, two * cos + one * sin], axis=-1)
    np.testing.assert_allclose(z.numpy(), expected, rtol=2e-3, atol=2e-3)
    print(f"rope of {x.shape} from place {first}: right")


if __name__ == "__main__":
    main()
