"""Conversions of f16 are those of NumPy, to the last bit."""

import numpy as np
import pytest

from tilewright.backends.cpu.halves import narrowed, widened

ALL = np.arange(1 << 16, dtype=np.uint16).view(np.float16)


def assert_same_bits(found, expected):
    assert found.dtype == expected.dtype
    bits = np.dtype(f"u{found.dtype.itemsize}")
    np.testing.assert_array_equal(found.view(bits), expected.view(bits))


def test_every_finite_number_is_widened_exactly():
    finite = ALL[np.isfinite(ALL)]
    assert_same_bits(widened(finite), finite.astype(np.float32))
    square = finite[: 1 << 14].reshape(128, 128)[::2].T
    assert_same_bits(widened(square), square.astype(np.float32))


def test_infinity_and_nan_are_widened():
    found = widened(ALL)
    np.testing.assert_array_equal(found, ALL.astype(np.float32))


@pytest.mark.parametrize("sign", [1, -1])
def test_midpoints_and_their_neighbours_are_rounded_to_even(sign):
    finite = np.sort(ALL[np.isfinite(ALL) & (ALL >= 0)]).astype(np.float32)
    middle = (finite[1:] + finite[:-1]) / 2  # exact
    for numbers in (finite, middle, np.nextafter(middle, 0), np.nextafter(middle, np.inf)):
        given = np.float32(sign) * numbers.astype(np.float32)
        assert_same_bits(narrowed(given), given.astype(np.float16))


def test_numbers_that_overflow_are_rounded():
    numbers = np.resize(np.float32([65519, 65520, 1e30, -np.inf, np.nan, 1]), 256)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(narrowed(numbers), numbers.astype(np.float16))


def test_random_bits_are_rounded():
    bits = np.random.default_rng(0).integers(0, 1 << 32, 1 << 17, np.uint32)
    numbers = bits.view(np.float32)
    numbers = numbers[np.abs(numbers) < 65520]
    assert_same_bits(narrowed(numbers), numbers.astype(np.float16))
