"""On which side of a rounded result the exact one lies: in f64 as with fractions."""

import ml_dtypes
import numpy as np
import pytest

from tilewright.backends.cpu import floats, rounding

DTYPES = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32)]
NEAREST = {
    rounding.lost_by_sum: np.add,
    rounding.lost_by_difference: np.subtract,
    rounding.lost_by_product: np.multiply,
    rounding.lost_by_quotient: np.divide,
    rounding.lost_by_fma: floats.fused,
    rounding.lost_by_root: np.sqrt,
}
OPERANDS = {rounding.lost_by_fma: 3, rounding.lost_by_root: 1}


def numbers(dtype, rng, count=1500):
    """Any bits, and numbers near each other, so that sums cancel and results are ties."""
    bits = rng.integers(0, 1 << 8 * dtype.itemsize, count, dtype=np.uint64)
    anything = bits.astype(f"u{dtype.itemsize}").view(dtype)
    near = (1 + rng.integers(-64, 64, count) * float(np.finfo(np.float32).eps)).astype(dtype)
    small = rng.integers(-20, 20, count).astype(dtype)
    ends = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0]).astype(dtype)
    found = np.concatenate([anything, near, small, np.tile(ends, 20)])
    return rng.permutation(found)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("lost", NEAREST, ids=lambda lost: lost.__name__)
def test_arithmetic(lost, dtype):
    rng = np.random.default_rng(11)
    operands = tuple(numbers(dtype, rng) for _ in range(OPERANDS.get(lost, 2)))
    with np.errstate(all="ignore"):
        nearest = NEAREST[lost](*operands)
        got = rounding._sides(lost, nearest, operands)
        want = rounding._exact_sides(lost, nearest, operands)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("lost", [rounding.lost_by_sum, rounding.lost_by_difference])
def test_sums_of_f64(lost):
    rng = np.random.default_rng(12)
    operands = tuple(numbers(np.dtype(np.float64), rng) for _ in range(2))
    with np.errstate(all="ignore"):
        nearest = NEAREST[lost](*operands)
        got = rounding._sides(lost, nearest, operands)
        want = rounding._exact_sides(lost, nearest, operands)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("to", [*DTYPES, np.dtype(np.float64)], ids=str)
@pytest.mark.parametrize("source", ["f4", "f8", "i1", "i4", "i8", "u4", "u8"])
def test_conversions(source, to):
    rng = np.random.default_rng(13)
    dtype = np.dtype(source)
    bits = rng.integers(0, 1 << 63, 3000, dtype=np.uint64) * 2 + rng.integers(0, 2, 3000, np.uint64)
    edges = np.array([0, 1, 2**64 - 1, 2**63, 2**63 - 1, 2**53 + 1, 2**24 + 1], np.uint64)
    x = np.concatenate([bits, edges, bits >> np.uint64(40)]).astype(f"u{dtype.itemsize}")
    x = x.view(dtype)
    with np.errstate(all="ignore"):
        nearest = x.astype(to)
        got = rounding._sides(rounding.lost_by_conversion, nearest, (x,))
        want = rounding._exact_sides(rounding.lost_by_conversion, nearest, (x,))
    np.testing.assert_array_equal(got, want)
