"""Bits of elements, and the raw data of constants."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tile_ir_programs import tile

from tilewright.dtypes import Element
from tilewright.ir.elements import E5M3_NUMBERS, constant_bytes, element_bits

E = Element


@pytest.mark.parametrize(
    ("value", "element", "bits"),
    [
        (1.0, E.F16, 0x3C00), (1.0, E.BF16, 0x3F80), (-2.0, E.F32, 0xC0000000),
        (float("-inf"), E.F64, 0xFFF0000000000000), (448.0, E.F8E4M3FN, 0x7E),
        (1.0, E.F8E5M2, 0x3C), (2.0, E.F8E8M0FNU, 0x80), (-6.0, E.F4E2M1FN, 0xF),
        (1.0, E.TF32, 0x1FC00), (-1, E.I8, 0xFF), (255, E.I8, 0xFF), (-1, E.I4, 0xF),
        (2**64 - 1, E.I64, 2**64 - 1), (True, E.I1, 1),
    ],
)  # fmt: skip
def test_bits(value: float, element: Element, bits: int):
    assert int(element_bits([value], element)[0]) == bits


@given(st.floats(width=32, allow_nan=False))
def test_tf32_is_the_nearest_with_ten_bits(value: float):
    bits = int(element_bits([value], E.TF32)[0])
    assert 0 <= bits < 1 << 19
    held = np.uint32(bits << 13).view(np.float32)
    if np.isinf(held):
        return
    for neighbour in (bits - 1, bits + 1):
        other = np.uint32((neighbour << 13) & 0xFFFFFFFF).view(np.float32)
        if np.isfinite(other) and np.signbit(other) == np.signbit(held):
            assert abs(float(held) - value) <= abs(float(other) - value)


def test_tf32_keeps_infinities_and_nans():
    assert int(element_bits([float("inf")], E.TF32)[0]) == 0x3FC00
    assert int(element_bits([float("nan")], E.TF32)[0]) == 0x3FE00


@pytest.mark.parametrize(
    ("value", "element", "data"),
    [
        (True, E.I1, "ff"), (False, E.I1, "00"), (1.0, E.TF32, "00fc01"), (-1, E.I4, "0f"),
        (-6.0, E.F4E2M1FN, "0f"), (258, E.I16, "0201"), (-1, E.I64, "ff" * 8),
    ],
)  # fmt: skip
def test_one_number_fills_a_tile(value: float, element: Element, data: str):
    assert constant_bytes(value, tile(element, 8)).hex() == data


def test_truth_values_are_packed_from_the_lowest_bit():
    values = np.array([1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0], bool)
    assert constant_bytes(values, tile(E.I1, 16)).hex() == "0103"


def test_rows_follow_each_other():
    values = np.array([[1, 2], [3, 4]], np.int8)
    assert constant_bytes(values, tile(E.I8, 2, 2)).hex() == "01020304"
    turned = np.asfortranarray(values)
    assert constant_bytes(turned, tile(E.I8, 2, 2)).hex() == "01020304"


def test_bfloat16_arrays():
    values = np.array([1.0, -2.0], ml_dtypes.bfloat16)
    assert constant_bytes(values, tile(E.BF16, 2)).hex() == "803f00c0"


def test_unsigned_floats_of_eight_bits():
    """Five bits of exponent, three of mantissa, no sign; all ones are the only NaN."""
    assert [E5M3_NUMBERS[bits] for bits in (0, 1, 8, 0x78, 0xFE)] == [
        0.0, 2.0**-17, 2.0**-14, 1.0, 1.75 * 2.0**16,
    ]  # fmt: skip
    assert np.isnan(E5M3_NUMBERS[255])
    every = np.arange(256, dtype=np.uint8)
    assert np.array_equal(element_bits(E5M3_NUMBERS, E.FNV8E5M3FNU), every)
    assert np.array_equal(element_bits(every, E.FNV8E5M3FNU), every)


@given(st.floats(0.0, 114688.0))
def test_unsigned_floats_are_the_nearest(value: float):
    bits = int(element_bits([value], E.FNV8E5M3FNU)[0])
    off = abs(float(E5M3_NUMBERS[bits]) - value)
    for other in {max(bits - 1, 0), min(bits + 1, 254)} - {bits}:
        distance = abs(float(E5M3_NUMBERS[other]) - value)
        assert off < distance or (off == distance and bits % 2 == 0)


@pytest.mark.parametrize("value", [-1.0, 122880.0, float("inf"), float("nan")])
def test_what_unsigned_floats_cannot_hold_is_no_number(value: float):
    assert int(element_bits([value], E.FNV8E5M3FNU)[0]) == 255


def test_too_large_numbers_become_infinite():
    assert int(element_bits([1e6], E.F16)[0]) == 0x7C00
