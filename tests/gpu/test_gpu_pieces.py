"""Whole axes, ragged rows and grids of every kind, on the GPU and on the CPU backend."""

import numpy as np
import pytest
from gpu_kernels import run_both

import tilewright as tw
from tilewright import All, Mut, Ref, f32, i32
from tilewright.dims import BM, BN, B, M, N

pytestmark = pytest.mark.gpu

FAR = 2**31 - 1


@tw.kernel(deny_checks=True)
def row_sums(z: Mut[f32, BM, All], x: Ref[f32, M, N]) -> None:
    tw.require(x.shape[0] == z.shape[0])
    parts = z.partition(1, 64)
    begin, end = z.rows
    for i in range(end - begin):
        total = tw.zeros((1, 64), f32)
        for j in range(parts.num_tiles(1)):
            total = total + x.partition(1, 64)[begin + i, j]
            parts.store(total, i, j)


@tw.kernel(deny_checks=True)
def places(z: Mut[i32, BM, BN]) -> None:
    number = tw.block_id(0) * tw.num_blocks(1) + tw.block_id(1)
    z.store(tw.full((BM, BN), number * 100 + z.index[0] * 10 + z.index[1], i32))


@tw.kernel(deny_checks=True)
def ragged(z: Mut[i32, B]) -> None:
    s, m = z.index
    begin, end = z.rows
    z.store(z.load() + (s * 1000 + m * 100 + end - begin))


@tw.kernel(deny_checks=True)
def ragged_parts(z: Mut[i32, BM, All], x: Ref[i32, M, N]) -> None:
    parts, (low, high) = z.partition(2, 8), z.segment
    for i in range(parts.num_tiles(0)):
        for j in range(parts.num_tiles(1)):
            columns = tw.arange(8) + j * 8
            parts.store(x.gather(tw.arange(2)[:, None] + low, columns) + high - low, i, j)


def test_whole_axes():
    x = np.random.default_rng(1).standard_normal((20, 300), dtype=np.float32)
    found, expected = run_both(
        lambda z, x: row_sums(z.partition(3, None), x), np.zeros((20, 300), np.float32), x
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_orders_of_the_grid(order):
    found, expected = run_both(
        lambda z: places(z.partition(4, 8, order=order)), np.zeros((37, 50), np.int32)
    )
    np.testing.assert_array_equal(found, expected)


def test_grids_that_the_call_gives():
    found, expected = run_both(
        lambda z: places.grid(3, 4)(z.partition(4, 8, prefix=True)), np.zeros((37, 50), np.int32)
    )
    np.testing.assert_array_equal(found, expected)


def test_more_blocks_along_an_axis_than_a_cuda_grid_has():
    found, expected = run_both(lambda z: places(z.partition(1, 1)), np.zeros((2, 70_000), np.int32))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "offsets",
    [[0, 100, 100, 357], [50, 3, -7, FAR, 20, 400], [-FAR - 1, FAR, 0], [7] * 300 + [357]],
    ids=["sorted", "hostile", "far", "many"],
)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_ragged_rows(offsets, dtype):
    segments = np.array(offsets, dtype)
    found, expected = run_both(
        lambda z, o: ragged(z.partition(64, segments=o)), np.zeros(357, np.int32), segments
    )
    np.testing.assert_array_equal(found, expected)
    x = np.arange(357 * 20, dtype=np.int32).reshape(357, 20)
    found, expected = run_both(
        lambda z, x, o: ragged_parts(z.partition(6, None, segments=o), x),
        np.zeros((357, 20), np.int32), x, segments,
    )  # fmt: skip
    np.testing.assert_array_equal(found, expected)
