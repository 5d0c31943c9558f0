"""On the GPU the kernels of the tour give what the CPU backend gives, whatever the sizes."""

import ml_dtypes
import numpy as np
import pytest
from gpu_kernels import (
    add,
    choose,
    gemm,
    gemm_persistent,
    less,
    poisoned,
    relative_error,
    run_both,
    saxpy,
    softmax,
)

pytestmark = pytest.mark.gpu

LENGTHS = (0, 1, 7, 1000, 1024, 4099, 65536)  # empty, ragged, divisible, prime
BIG, SMALL = (128, 128, 64), (64, 64, 32)  # without TMA the big tile takes long to assemble
MATRICES = (
    ((256, 256, 128), BIG),
    ((512, 384, 1024), BIG),
    ((200, 136, 72), BIG),  # ragged, with strides that TMA can use
    ((127, 131, 67), SMALL),  # primes: no TMA
    ((1, 1, 1), SMALL),
    ((1, 257, 640), SMALL),
    ((0, 128, 64), BIG),
    ((128, 0, 64), SMALL),
    ((128, 136, 0), SMALL),  # nothing to sum: zeros
)


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("tile", [128, 1024])
def test_add(rng, length, tile):
    x, y = rng.standard_normal((2, length), dtype=np.float32)
    found, expected = run_both(
        lambda z, x, y: add(z.partition(tile), x, y), poisoned(length, np.float32), x, y
    )
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(found, x + y)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.int32])
@pytest.mark.parametrize("length", [1024, 1009])
def test_add_of_other_dtypes(rng, dtype, length):
    x, y = (rng.standard_normal((2, length)) * 100).astype(dtype)
    found, expected = run_both(
        lambda z, x, y: add(z.partition(256), x, y), poisoned(length, dtype), x, y
    )
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(found, x + y)


@pytest.mark.parametrize("length", LENGTHS)
def test_saxpy(rng, length):
    x, y = rng.standard_normal((2, length), dtype=np.float32)
    found, expected = run_both(
        lambda z, x, y: saxpy(z.partition(256), x, y, 2.7), poisoned(length, np.float32), x, y
    )
    np.testing.assert_array_max_ulp(found, expected, maxulp=1)
    exact = np.float64(np.float32(2.7)) * x.astype(np.float64) + y
    np.testing.assert_allclose(found, exact, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("shape", [(8, 1024), (5, 1000), (3, 7), (17, 509), (0, 1024), (4, 1)])
@pytest.mark.parametrize("rows", [1, 4])
def test_softmax(rng, shape, rows):
    x = rng.standard_normal(shape, dtype=np.float32) * 4
    found, expected = run_both(
        lambda z, x: softmax(z.partition(rows, 1024), x), poisoned(shape, np.float32), x
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-9)
    powers = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True, initial=-np.inf))
    np.testing.assert_allclose(found, powers / powers.sum(axis=1, keepdims=True), rtol=1e-5)


def multiply(schedule, tile):
    rows, columns, depth = tile

    def launch(z, x, y):
        cut = z.partition(rows, columns)
        if schedule == "plain":
            return gemm(cut, x, y, BK=depth)
        group = (8, 1) if schedule == "grouped" else 1
        return gemm_persistent(cut.persistent(blocks=3, group=group), x, y, BK=depth)

    return launch


def check_product(rng, shape, launch, dtype, limit):
    m, n, k = shape
    x = rng.standard_normal((m, k), dtype=np.float32).astype(dtype)
    y = rng.standard_normal((k, n), dtype=np.float32).astype(dtype)
    found, expected = run_both(launch, poisoned((m, n), dtype), x, y)
    exact = x.astype(np.float64) @ y.astype(np.float64)
    assert found.shape == exact.shape
    assert relative_error(found, exact) < limit
    assert relative_error(found, expected.astype(np.float64)) < limit


@pytest.mark.parametrize(("shape", "tile"), MATRICES)
@pytest.mark.parametrize("schedule", ["plain", "persistent", "grouped"])
def test_gemm(rng, shape, tile, schedule):
    check_product(rng, shape, multiply(schedule, tile), np.float16, 1e-3)


@pytest.mark.parametrize(("shape", "tile"), MATRICES[2:4])
@pytest.mark.parametrize("schedule", ["plain", "grouped"])
def test_gemm_of_bf16(rng, shape, tile, schedule):
    check_product(rng, shape, multiply(schedule, tile), ml_dtypes.bfloat16, 4e-3)


def test_a_persistent_gemm_with_as_many_blocks_as_fit(rng):
    def launch(z, x, y):
        return gemm_persistent(z.partition(64, 64).persistent(group=(8, 1)), x, y)

    check_product(rng, (1504, 2096, 512), launch, np.float16, 1e-3)


@pytest.mark.parametrize("length", LENGTHS)
def test_truth_values_are_written_and_read(rng, length):
    x, y = rng.integers(-3, 4, (2, length), dtype=np.int32)
    found, expected = run_both(
        lambda z, x, y: less(z.partition(128), x, y), poisoned(length, np.bool_), x, y
    )
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(found, x < y)
    chosen, expected = run_both(
        lambda z, condition, x: choose(z.partition(128), condition, x),
        poisoned(length, np.int32),
        found,
        x,
    )
    np.testing.assert_array_equal(chosen, expected)
    np.testing.assert_array_equal(chosen, np.where(x < y, x, -x))
