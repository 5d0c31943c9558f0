"""Walks over ranges that the device reads: every tile once, on the GPU as on the CPU backend."""

import itertools

import numpy as np
import pytest
from gpu_kernels import add_to_rows, run_both

import tilewright as tw
from tilewright import Mapped, Ref, i32
from tilewright.dims import BM, BN, B

pytestmark = pytest.mark.gpu

ENDS = ((0, 99), (1, 1), (2, 3), (-5, 2), (2**31 - 1, 0), (-(2**31), 2**31 - 1))


@tw.kernel(deny_checks=True)
def add_in_range(z: Mapped[i32, BM, BN], ends: Ref[i32, 4]) -> None:
    e = ends.partition(1)
    rows, columns = (e[0].item(), e[1].item()), (e[2].item(), e[3].item())
    for at in z.indices_within(rows, columns):
        i, j = at
        z.store(z.load(at) + (1 + i * 100 + j), at)


@pytest.mark.parametrize("blocks", [1, 5, None])
@pytest.mark.parametrize("group", [1, (3, 1), (2, 2)])
def test_ranges_of_two_axes(blocks, group):
    poison = np.arange(37 * 41, dtype=np.int32).reshape(37, 41)
    i, j = np.ogrid[:37, :41]
    i, j = i // 8, j // 4
    for rows, columns in itertools.product(ENDS, ENDS[:4]):

        def launch(z, ends):
            return add_in_range(z.partition(8, 4).persistent(blocks=blocks, group=group), ends)

        found, expected = run_both(launch, poison, np.array([*rows, *columns], np.int32))
        inside = (i >= rows[0]) & (i < rows[1]) & (j >= columns[0]) & (j < columns[1])
        np.testing.assert_array_equal(found, np.where(inside, poison + 1 + i * 100 + j, poison))
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("first", [0, 5, 30, -3])
@pytest.mark.parametrize("columns", [1, 16, 100])
def test_rows_that_are_owned_whole_are_walked_again(first, columns):
    poison = np.arange(33 * columns, dtype=np.int32).reshape(33, columns)

    def launch(z, start):
        return add_to_rows(z.partition(1, None).persistent(blocks=7), start, 9)

    found, expected = run_both(launch, poison, np.array([first], np.int32))
    rows = np.arange(33)[:, None]
    inside = (rows >= first) & (rows < first + 9)
    np.testing.assert_array_equal(found, np.where(inside, poison + 6, poison))
    np.testing.assert_array_equal(found, expected)


@tw.kernel(deny_checks=True)
def add_in_parts(z: Mapped[i32, 6, 12], y: Mapped[i32, B]) -> None:
    """A second output walked inside the walk of the first, and tiles that are no powers of two."""
    for at in z.indices():
        parts = z.piece(at).partition(2, 4)
        for r in range(parts.num_tiles(0)):
            for c in range(parts.num_tiles(1)):
                parts.store(parts[r, c] * 2, r, c)
    for at in y.indices():
        y.store(y.load(at) + 1, at)


def test_tiles_in_parts_beside_another_walk():
    x = np.arange(31 * 50, dtype=np.int32).reshape(31, 50)

    def launch(z, y):
        cuts = z.partition(6, 12).persistent(blocks=4, group=2), y.partition(8).persistent()
        return add_in_parts(*cuts).then(lambda _: add_in_parts(*cuts))

    found, expected = run_both(launch, x, np.zeros(61, np.int32))
    np.testing.assert_array_equal(found, x * 4)
    np.testing.assert_array_equal(found, expected)
