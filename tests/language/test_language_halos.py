"""Windows that begin before or behind their steps: halos on both sides, padded."""

import itertools
import math

import numpy as np
import pytest
from running import run

import tilewright as tw
from tilewright import Const, Mut, Ref, f32, i32
from tilewright.dims import BM, BN, B, M, N, T


@tw.kernel(deny_checks=True)
def three_sums(z: Mut[T, B], x: Ref[T, N]) -> None:
    """Every element with its two neighbours: by way of windows that are twice as wide."""
    tw.require(x.shape[0] == z.shape[0])
    halo = x.windows(2 * B, step=B, start=-1)[z.index[0]]
    lanes = tw.arange(2 * B)[None, :] - tw.arange(B)[:, None]
    near = (lanes >= 0) & (lanes <= 2)
    z.store(tw.sum(tw.where(near, halo[None, :], 0), axis=1))


@pytest.mark.parametrize("length", [1, 3, 4, 5, 16, 17])
def test_neighbours_on_both_sides(length):
    x = np.random.default_rng(length).integers(-50, 50, length).astype(np.int32)
    around = np.pad(x, 1)
    wanted = around[:-2] + around[1:-1] + around[2:]
    np.testing.assert_array_equal(run(three_sums, ((length,), i32), 4, x), wanted)


@tw.kernel
def window(
    z: Mut[T, BM, BN], x: Ref[T, M, N], i: i32, j: i32, *, DOWN: Const[int], RIGHT: Const[int]
) -> None:
    z.store(x.windows(BM, BN, step=(3, 2), start=(DOWN, RIGHT), padding=-math.inf)[i, j])


@pytest.mark.parametrize("start", [(-1, 0), (0, -3), (-3, -2), (0, 0), (1, 0), (2, -1), (3, 3)])
def test_every_window_of_a_matrix(start):
    x = np.arange(35, dtype=np.float32).reshape(7, 5)
    around = np.pad(x, 16, constant_values=-np.inf)
    for i, j in itertools.product(range(3), range(3)):
        row, column = 16 + 3 * i + start[0], 16 + 2 * j + start[1]
        got = run(window, ((4, 4), f32), (4, 4), x, i, j, DOWN=start[0], RIGHT=start[1])
        np.testing.assert_array_equal(got, around[row : row + 4, column : column + 4])


@pytest.mark.parametrize("place", [(3, 0), (0, 3), (-1, 0)])
def test_a_window_that_is_not_there_is_reported(place):
    x = np.zeros((7, 5), np.float32)
    with pytest.raises((tw.LaunchError, tw.OutOfBoundsError)):
        run(window, ((4, 4), f32), (4, 4), x, *place, DOWN=-1, RIGHT=-1)


@pytest.mark.parametrize("start", [(4, 0), (0, -4)])
def test_a_start_is_less_than_a_window_away(start):
    with pytest.raises(tw.CompileError, match="a start is between -3 and 3"):
        run(
            window,
            ((4, 4), f32),
            (4, 4),
            np.zeros((7, 5), np.float32),
            0,
            0,
            DOWN=start[0],
            RIGHT=start[1],
        )
