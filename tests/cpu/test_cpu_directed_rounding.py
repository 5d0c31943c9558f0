"""On which side of a rounded result the exact one lies: in f64 as with fractions."""

from fractions import Fraction
from math import isfinite

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
# The exact result minus the rounded one, up to a positive factor.
LOST = {
    rounding.lost_by_sum: lambda rounded, x, y: x + y - rounded,
    rounding.lost_by_difference: lambda rounded, x, y: x - y - rounded,
    rounding.lost_by_product: lambda rounded, x, y: x * y - rounded,
    rounding.lost_by_quotient: lambda rounded, x, y: x / y - rounded,
    rounding.lost_by_fma: lambda rounded, x, y, z: x * y + z - rounded,
    rounding.lost_by_root: lambda rounded, x: x - rounded * rounded,
    rounding.lost_by_conversion: lambda rounded, x: x - rounded,
}


def exact_sides(lost, nearest, operands):
    """The sign of what rounding has lost, by fractions."""

    def side(rounded, *numbers):
        if not all(isfinite(number) for number in numbers) or rounded != rounded:
            return 0
        if not isfinite(rounded):
            # On overflow the exact result is finite, unless a division by zero gave infinity.
            is_exact = lost is rounding.lost_by_quotient and numbers[1] == 0
            return 0 if is_exact else -1 if rounded > 0 else 1
        difference = LOST[lost](*map(Fraction, (rounded, *numbers)))
        return (difference > 0) - (difference < 0)

    columns = (array if array.dtype.kind in "iu" else array.astype(float) for array in operands)
    columns = [array.astype(object) for array in (nearest.astype(float), *columns)]
    return np.asarray(np.frompyfunc(side, len(columns), 1)(*columns), np.int8)


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
        want = exact_sides(lost, nearest, operands)
    np.testing.assert_array_equal(got, want)


def f64_numbers(rng):
    """Any bits, short numbers, and numbers at both ends of the range: all cases of a product."""
    short = rng.integers(1, 1 << 20, 500) * 2.0 ** rng.integers(-500, 500, 500)
    low = rng.integers(1, 1 << 12, 500) * 2.0 ** rng.integers(-1074, -1000, 500)
    high = rng.random(300) * 2.0 ** rng.integers(900, 1023, 300)
    near = (1 + rng.integers(-64, 64, 500) * np.finfo(np.float64).eps) * rng.choice([-1, 1], 500)
    found = np.concatenate([numbers(np.dtype(np.float64), rng), short, low, high, -high, near])
    return rng.permutation(found)


@pytest.mark.parametrize("lost", NEAREST, ids=lambda lost: lost.__name__)
def test_arithmetic_of_f64(lost):
    rng = np.random.default_rng(12)
    operands = [f64_numbers(rng) for _ in range(OPERANDS.get(lost, 2))]
    if len(operands) == 3:  # sums that cancel, all of the product or most of it
        with np.errstate(all="ignore"):
            product = -operands[0] * operands[1]
            z = product * rng.choice([1, 1 + 2.0**-52, 1 - 2.0**-40], product.size)
        operands[2] = np.where(rng.random(z.size) < 0.5, z, operands[2])
    with np.errstate(all="ignore"):
        nearest = NEAREST[lost](*operands)
        got = rounding._sides(lost, nearest, tuple(operands))
        want = exact_sides(lost, nearest, operands)
    np.testing.assert_array_equal(got, want)
    assert {-1, 0, 1} == set(want.tolist())


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
        want = exact_sides(rounding.lost_by_conversion, nearest, (x,))
    np.testing.assert_array_equal(got, want)
