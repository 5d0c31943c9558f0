"""Interval arithmetic against every member of small intervals."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.analysis.intervals import I32, Interval, MachineType

ENDS = st.tuples(st.integers(-9, 9), st.integers(-9, 9))
INTERVALS = ENDS.map(lambda ends: Interval(min(ends), max(ends)))


def members(interval: Interval) -> range:
    return range(interval.low, interval.high + 1)


@given(INTERVALS, INTERVALS)
def test_division_and_remainder_contain_every_result_and_round_down(left, right):
    quotient, remainder = left.floor_divide(right), left.floor_remainder(right)
    for a, b in product(members(left), members(right)):
        if b:
            assert quotient.low <= a // b <= quotient.high
            assert remainder.low <= a % b <= remainder.high


@given(INTERVALS, st.integers(-9, 9).filter(bool))
def test_division_by_one_number_is_exact(left, by):
    quotients = [a // by for a in members(left)]
    assert left.floor_divide(Interval(by, by)) == Interval(min(quotients), max(quotients))


def test_half_of_one_below_zero_is_below_zero():
    """`(i - 1) // 2` for i from 0 to 3 starts at -1: truncation would hide it."""
    assert Interval(-1, 2).floor_divide(Interval(2, 2)) == Interval(-1, 1)


@given(INTERVALS, INTERVALS)
def test_products_are_exact_at_their_ends(left, right):
    products = [a * b for a in members(left) for b in members(right)]
    assert left * right == Interval(min(products), max(products))


@given(INTERVALS, st.integers(-4, 4))
def test_scaling_turns_the_ends_where_the_factor_is_negative(interval, factor):
    scaled = [member * factor for member in members(interval)]
    assert interval.scaled(factor) == Interval(min(scaled), max(scaled))


@given(INTERVALS)
def test_a_checked_divisor_has_one_in_place_of_zero(interval):
    found = interval.without_zero()
    assert all(found.low <= (member or 1) <= found.high for member in members(interval))


@given(st.integers(-60, 60), st.integers(0, 40), st.booleans())
def test_holding_contains_every_wrapped_number(low, width, signed):
    type_ = MachineType(4, signed)
    found = type_.hold(Interval(low, low + width))
    for value in range(low, low + width + 1):
        wrapped = (value - type_.interval.low) % 16 + type_.interval.low
        assert found.low <= wrapped <= found.high


def test_numbers_that_all_wrap_alike_stay_apart():
    top = I32.interval.high
    assert I32.hold(Interval(top + 1, top + 3)) == Interval(-top - 1, -top + 1)
    assert I32.hold(Interval(top, top + 1)) == I32.interval


@pytest.mark.parametrize(
    ("type_", "low", "high"),
    [
        (MachineType(32), -(2**31), 2**31 - 1),
        (MachineType(32, signed=False), 0, 2**32 - 1),
        (MachineType(1, signed=False), 0, 1),
    ],
)
def test_machine_types_have_their_usual_range(type_, low, high):
    assert type_.interval == Interval(low, high)
