"""Operators mean what they mean in Python and NumPy, on tiles and on scalars."""

import numpy as np
import pytest
from operator_functions import (
    add,
    bit_and,
    bit_or,
    bit_xor,
    divide,
    equal,
    floor_divide,
    greater,
    greater_equal,
    inverted,
    less,
    less_equal,
    modulo,
    multiply,
    negative,
    not_equal,
    positive,
    power,
    shift_left,
    shift_right,
    subtract,
)
from running import (
    LENGTH,
    apply_binary,
    apply_unary,
    assert_same,
    floats,
    integers,
    numpy_of,
    run,
    special_floats,
)

import tilewright as tw
from tilewright import Mut, Ref, bf16, bool_, f16, f32, i32, u32
from tilewright.dims import B, N

FLOATS = [f16, bf16, f32]
SMALLEST = -(2**31)


COMPARISONS = [equal, not_equal, less, less_equal, greater, greater_equal]


# --- floats ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.label)
@pytest.mark.parametrize("operator", [add, subtract, multiply, divide])
def test_float_arithmetic(operator, dtype):
    x, y = floats(dtype, 1), floats(dtype, 2)
    assert_same(apply_binary(operator, x, y, dtype), operator(x, y))


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.label)
@pytest.mark.parametrize("operator", [add, subtract, multiply, divide])
def test_special_floats(operator, dtype):
    x = special_floats(dtype)
    y = np.roll(x, 5)
    with np.errstate(all="ignore"):
        wanted = operator(x, y)
    assert_same(apply_binary(operator, x, y, dtype), wanted)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.label)
@pytest.mark.parametrize("operator", COMPARISONS)
def test_comparisons_with_nan_are_false_except_not_equal(operator, dtype):
    x = special_floats(dtype)
    y = np.roll(x, 3)
    y[:LENGTH:7] = x[:LENGTH:7]
    got = apply_binary(operator, x, y, bool_)
    wanted = operator(x.astype(np.float32), y.astype(np.float32))
    np.testing.assert_array_equal(got, wanted)
    assert got[np.isnan(x.astype(np.float32))].all() == (operator is not_equal)


@pytest.mark.parametrize("operator", [floor_divide, modulo])
def test_float_floor_division_and_modulo_follow_python(operator):
    x = np.resize(np.array([7.5, -7.5, 7.5, -7.5, 1.0, -1.0, 6.0, -6.0], np.float32), LENGTH)
    y = np.resize(np.array([2.0, 2.0, -2.0, -2.0, 0.1, 0.1, 3.0, 3.0], np.float32), LENGTH)
    assert_same(apply_binary(operator, x, y, f32), operator(x, y))
    x, y = floats(f32, 3) * 1000, floats(f32, 4)
    assert_same(apply_binary(operator, x, y, f32), operator(x, y))


def test_float_floor_division_by_zero_is_as_in_true_division():
    x = np.resize(np.array([1.0, -1.0, 0.0, np.inf], np.float32), LENGTH)
    with np.errstate(all="ignore"):
        wanted = x // np.zeros_like(x)
    assert_same(apply_binary(floor_divide, x, np.zeros_like(x), f32), wanted)


def test_power():
    x, y = np.abs(floats(f32, 1)), floats(f32, 2)
    np.testing.assert_allclose(apply_binary(power, x, y, f32), x**y, rtol=1e-5)


# --- integers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("operator", [add, subtract, multiply, bit_and, bit_or, bit_xor])
def test_integer_arithmetic_wraps(operator):
    x, y = integers(1, SMALLEST, 2**31 - 1), integers(2, SMALLEST, 2**31 - 1)
    assert_same(apply_binary(operator, x, y, i32), operator(x, y))


@pytest.mark.parametrize("operator", [floor_divide, modulo])
def test_integer_division_rounds_down(operator):
    x, y = integers(1), integers(2)
    y[y == 0] = 7
    assert_same(apply_binary(operator, x, y, i32), operator(x, y))


def test_the_lowest_integer_divided_by_minus_one_wraps():
    x, y = np.full(LENGTH, SMALLEST, np.int32), np.full(LENGTH, -1, np.int32)
    assert_same(apply_binary(floor_divide, x, y, i32), x)
    assert_same(apply_binary(modulo, x, y, i32), np.zeros_like(x))


@pytest.mark.parametrize("operator", COMPARISONS)
def test_integer_comparisons(operator):
    x, y = integers(1, -3, 3), integers(2, -3, 3)
    assert_same(apply_binary(operator, x, y, bool_), operator(x, y))


@pytest.mark.parametrize("operator", [less, greater, floor_divide, modulo])
def test_unsigned_integers_are_read_as_such(operator):
    x = np.resize(np.array([1, 2**31, 2**32 - 1, 5], np.uint32), LENGTH)
    y = np.resize(np.array([2**31 + 1, 3, 2, 2**32 - 1], np.uint32), LENGTH)
    dtype = bool_ if operator in (less, greater) else u32
    assert_same(apply_binary(operator, x, y, dtype), operator(x, y))


@pytest.mark.parametrize("operator", [negative, positive, inverted])
def test_unary_operators(operator):
    assert_same(apply_unary(operator, integers(), i32), operator(integers()))
    if operator is not inverted:
        assert_same(apply_unary(operator, floats(f16), f16), operator(floats(f16)))


def test_inverted_truth_values():
    def turned(a):
        return ~(a > 0)

    assert_same(apply_unary(turned, floats(f32), bool_), ~(floats(f32) > 0))


# --- shifts ---------------------------------------------------------------------------------------


def test_shifts_by_less_than_the_width():
    x, y = integers(1, SMALLEST, 2**31 - 1), integers(2, 0, 31)
    for shift in (shift_left, shift_right):
        assert_same(apply_binary(shift, x, y, i32), shift(x, y))


def test_a_shift_by_the_width_or_more_leaves_zero_or_the_sign():
    x = np.resize(np.array([1, -1, 12345, SMALLEST], np.int32), LENGTH)
    y = np.resize(np.array([32, 33, 1000, -1, 31, SMALLEST], np.int32), LENGTH)
    outside = (y < 0) | (y > 31)
    held = np.where(outside, 31, y)
    assert_same(apply_binary(shift_left, x, y, i32), np.where(outside, 0, x << held))
    assert_same(apply_binary(shift_right, x, y, i32), x >> held)


def test_unsigned_shifts_bring_in_zeros():
    x = np.full(LENGTH, 2**32 - 1, np.uint32)
    y = np.arange(LENGTH, dtype=np.uint32)
    wanted = np.where(y < 32, x >> np.minimum(y, 31), 0).astype(np.uint32)
    assert_same(apply_binary(shift_right, x, y, u32), wanted)


# --- literals and scalars -------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*FLOATS, i32], ids=lambda d: d.label)
def test_literals_take_the_dtype_they_meet(dtype):
    def mixed(a):
        return 3 - (a * 2 + 1)

    x = floats(dtype).astype(numpy_of(dtype))
    assert_same(apply_unary(mixed, x, dtype), mixed(x))


def test_true_is_one_beside_a_number():
    def more(a):
        return a + True

    assert_same(apply_unary(more, integers(), i32), integers() + 1)


@pytest.mark.parametrize("a", [7, -7, 0, 2**31 - 1, SMALLEST])
@pytest.mark.parametrize("b", [3, -3, 1, -1, SMALLEST])
def test_scalar_division_rounds_down(a, b):
    @tw.kernel
    def divided(z: Mut[i32, B], a: i32, b: i32) -> None:
        quotient, remainder = a // b, a % b
        z.store(tw.where(tw.arange(B) == 0, quotient, remainder))

    got = run(divided, ((2,), i32), 2, a, b)
    wanted = (-SMALLEST if (a, b) == (SMALLEST, -1) else a // b), a % b
    np.testing.assert_array_equal(got, np.array(wanted, np.int64).astype(np.int32))


def test_scalars_of_a_launch_broadcast():
    @tw.kernel
    def saxpy(z: Mut[f32, B], x: Ref[f32, N], alpha: f32, beta: f32) -> None:
        z.store(alpha * x.load_like(z) + (beta - alpha))

    x = floats(f32)
    got = run(saxpy, (x.shape, f32), 32, x, 2.5, 1)
    np.testing.assert_allclose(got, 2.5 * x - 1.5, rtol=1e-6)


def test_constants_are_computed_as_in_python():
    @tw.kernel
    def constants(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        z.store(x.load_like(z) * (7 // 2 + -7 % 4 + 2**3 / 16 + (5 ^ 1) + (1 << 3) + ~0))

    factor = 7 // 2 + -7 % 4 + 2**3 / 16 + (5 ^ 1) + (1 << 3) + ~0
    assert_same(run(constants, ((LENGTH,), f32), 32, floats(f32)), floats(f32) * np.float32(factor))


def test_a_constant_truth_value_is_inverted_as_an_integer():
    """As in Python, which warns of it from 3.12 on."""
    flag = True

    @tw.kernel
    def inverted_flag(z: Mut[i32, B]) -> None:
        z.store(tw.full((B,), ~flag, i32))

    assert_same(run(inverted_flag, ((LENGTH,), i32), 32), np.full(LENGTH, -2, np.int32))


def test_augmented_assignment():
    def accumulated(a):
        total = a
        total += 2
        total *= a
        total -= 1
        return total

    x = integers()
    assert_same(apply_unary(accumulated, x, i32), (x + 2) * x - 1)  # tiles are immutable
