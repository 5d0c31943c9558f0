"""On the GPU, too, every accumulation counts once: tiles with their overhang, equal indices.

Sums are of small whole numbers, which are exact in every dtype and in every order.
"""

import ml_dtypes
import numpy as np
import pytest
from gpu_kernels import GPU, run_both

import tilewright as tw
from tilewright import Accum, Const, Ref, i32
from tilewright.dims import K, M, N, S, T

pytestmark = pytest.mark.gpu


@tw.kernel(deny_checks=True)
def sum_tiles(z: Accum[T, M, N], x: Ref[T, S, M, N]) -> None:
    """Every block adds a whole matrix, tile by tile; the last ones hang over both edges."""
    xs = x.partition(1, 8, 16)
    for i in range(xs.num_tiles(1)):
        for j in range(xs.num_tiles(2)):
            z.add(xs[tw.block_id(0), i, j].reshape(8, 16), i, j)


@tw.kernel(deny_checks=True)
def add_rows(z: Accum[T, M, K], ids: Ref[i32, N], x: Ref[T, N, K], *, B: Const[int] = 32) -> None:
    i = tw.block_id(0)
    inside = i * B + tw.arange(B) < N
    columns = tw.arange(16)
    rows = x.gather((i * B + tw.arange(B))[:, None], columns)
    z.add_at(rows, ids.partition(B)[i][:, None], columns, mask=inside[:, None])


@tw.kernel(deny_checks=True)
def keep_highest(z: Accum[T, K], ids: Ref[i32, N], x: Ref[T, N], *, B: Const[int] = 32) -> None:
    i = tw.block_id(0)
    inside = i * B + tw.arange(B) < N
    z.max_at(x.partition(B)[i], ids.partition(B)[i], mask=inside)


DTYPES = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)
INTEGERS = (np.int32, np.int64, np.uint32, np.uint64)


@pytest.mark.parametrize("dtype", [*DTYPES, *INTEGERS])
@pytest.mark.parametrize("shape", [(1, 1), (16, 32), (13, 37)])
def test_tiles_are_added_once_and_nothing_around_them(dtype, shape):
    x = np.random.default_rng(0).integers(0, 4, (20, *shape)).astype(dtype)
    frame = np.full((shape[0] + 3, shape[1] + 16), 5).astype(dtype)

    def launch(z, x):
        return sum_tiles.grid(20)(z[: shape[0], : shape[1]], x)

    found, expected = run_both(launch, frame, x)
    np.testing.assert_array_equal(found, expected)
    frame[: shape[0], : shape[1]] += x.sum(axis=0).astype(dtype)
    np.testing.assert_array_equal(found, frame)


@pytest.mark.parametrize("dtype", [*DTYPES, *INTEGERS])
def test_rows_with_equal_numbers_are_all_added(dtype):
    generator = np.random.default_rng(1)
    x = generator.integers(0, 3, (500, 16)).astype(dtype)
    ids = generator.integers(-2, 9, 500).astype(np.int32)
    output = np.zeros((7, 16), dtype)
    found, expected = run_both(lambda z, *t: add_rows.grid(16)(z, *t), output, ids, x)
    np.testing.assert_array_equal(found, expected)
    known = (ids >= 0) & (ids < 7)
    np.add.at(output, ids[known], x[known])
    np.testing.assert_array_equal(found, output)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_the_highest_is_kept_by_the_order_of_its_dtype(dtype):
    generator = np.random.default_rng(2)
    info = np.iinfo(dtype)
    x = generator.integers(info.min, info.max, 500, dtype, endpoint=True)
    ids = generator.integers(0, 8, 500).astype(np.int32)
    output = np.full((8,), info.min, dtype)
    found, expected = run_both(lambda z, *t: keep_highest.grid(16)(z, *t), output, ids, x)
    np.testing.assert_array_equal(found, expected)
    np.maximum.at(output, ids, x)
    np.testing.assert_array_equal(found, output)


def test_a_million_additions_to_one_element():
    counter = tw.from_numpy(np.zeros((1,), np.int32), device=GPU)
    ones = tw.from_numpy(np.ones((1 << 20, 1), np.int32), device=GPU)
    ids = tw.from_numpy(np.zeros((1 << 20,), np.int32), device=GPU)
    add_rows.grid(1 << 15)(counter.reshape(1, 1), ids, ones).sync()
    assert counter.numpy()[0] == 1 << 20
