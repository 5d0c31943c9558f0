"""Products with the tiles of the CPU: other tests force small ones."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import kernels
from tilewright.kernels.reference import products as reference

# One row, few, more than few, several tiles; prime extents, powers of two, and nothing.
SHAPES = [
    (1, 7, 300),
    (3, 305, 429),
    (16, 5000, 33),
    (17, 1, 1),
    (130, 257, 1030),
    (300, 64, 2000),
    (0, 5, 3),
    (20, 0, 5),
    (20, 5, 0),
    (3, 0, 5),
]


def drawn(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def close(found, expected, dtype):
    tolerance = 2e-2 if dtype is np.float16 else 1e-3
    np.testing.assert_allclose(found.numpy(), expected, rtol=tolerance, atol=20 * tolerance)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_products(shape, dtype):
    m, n, k = shape
    a, b = drawn(m, k, dtype=dtype), drawn(k, n, dtype=dtype, seed=1)
    found = kernels.matmul(tw.from_numpy(a), tw.from_numpy(b), activation="relu").sync()
    close(found, reference.matmul(a, b, activation="relu"), dtype)


def test_a_batch_of_products():
    a, b = drawn(5, 33, 70), drawn(5, 70, 20, seed=1)
    close(kernels.matmul(*map(tw.from_numpy, (a, b))).sync(), a @ b, np.float32)


@pytest.mark.parametrize("shape", [(31, 8299), (876, 299), (1, 1), (0, 3), (3, 0)], ids=str)
def test_a_matrix_and_a_vector(shape):
    a, x = drawn(*shape), drawn(shape[1], seed=1)
    close(kernels.matvec(*map(tw.from_numpy, (a, x))).sync(), a @ x, np.float32)


@pytest.mark.parametrize("rows", [5, 300])
def test_groups(rows):
    a, b = drawn(rows, 70), drawn(3, 70, 20, seed=1)
    offsets = np.array([0, rows // 3, rows // 3, rows], np.int32)
    found = kernels.grouped_matmul(*map(tw.from_numpy, (a, b, offsets))).sync()
    close(found, reference.grouped_matmul(a, b, offsets), np.float32)
