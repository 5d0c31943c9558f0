"""`astype`: floats round to nearest, floats to integers saturate, NaN gives 0, zero is false."""

import numpy as np
import pytest
from running import LENGTH, apply_unary, assert_same, numpy_of, run

import tilewright as tw
from tilewright import Const, DType, Mut, Ref, bf16, bool_, f16, f32, i32
from tilewright.dims import B, N, T

DTYPES = [f16, bf16, f32, i32, bool_]
LIMITS = np.iinfo(np.int32)


@tw.kernel
def convert(z: Mut[T, B], x: Ref[f32, N], *, VIA: Const[DType]) -> None:
    z.store(x.load_like(z).astype(VIA).astype(z.dtype))


NUMBERS = np.resize(
    np.array([0, 1, -1, 2.5, -2.5, 3.5, 0.1, -0.9, 100.7, 1000.3, -6000.6, 65504], np.float32),
    LENGTH,
)


def converted(values: np.ndarray, dtype: type[DType]) -> np.ndarray:
    """What NumPy makes of numbers that fit."""
    if dtype is bool_:
        return values.astype(np.float64) != 0
    if dtype is i32 and values.dtype.kind != "b":
        return np.trunc(values.astype(np.float64)).astype(np.int32)
    return values.astype(numpy_of(dtype))


@pytest.mark.parametrize("to", DTYPES, ids=lambda d: d.label)
@pytest.mark.parametrize("via", DTYPES, ids=lambda d: d.label)
def test_every_pair(via, to):
    got = run(convert, ((LENGTH,), to), 32, NUMBERS, VIA=via)
    assert_same(got, converted(converted(NUMBERS, via), to))


@pytest.mark.parametrize("dtype", [f16, bf16, f32], ids=lambda d: d.label)
def test_floats_to_integers_saturate_and_nan_is_zero(dtype):
    def to_integers(t):
        return t.astype(i32)

    huge = 60000.0 if dtype is f16 else 1e30
    some = [np.nan, np.inf, -np.inf, huge, -huge, 2.9, -2.9]
    x = np.resize(np.array(some, numpy_of(dtype)), LENGTH)
    as_double = np.nan_to_num(x.astype(np.float64), nan=0.0)
    wanted = np.trunc(np.clip(as_double, LIMITS.min, LIMITS.max)).astype(np.int64).astype(np.int32)
    assert_same(apply_unary(to_integers, x, i32), wanted)


def test_the_largest_integers_round_to_the_nearest_float():
    def to_floats(t):
        return t.astype(f32)

    x = np.resize(np.array([LIMITS.max, LIMITS.min, 16777217, -16777219], np.int32), LENGTH)
    assert_same(apply_unary(to_floats, x, f32), x.astype(np.float32))


def test_narrowing_floats_round_to_nearest_even_and_overflow_to_infinity():
    def narrowed(t):
        return t.astype(f16)

    x = np.resize(
        np.array([1 + 2**-11, 1 + 3 * 2**-11, 65520, -1e9, 6e-8, 1e-9], np.float32), LENGTH
    )
    with np.errstate(over="ignore"):
        wanted = x.astype(np.float16)
    assert_same(apply_unary(narrowed, x, f16), wanted)


@pytest.mark.parametrize("value", [0.0, -0.0, 0.25, np.nan])
def test_what_is_not_zero_is_true(value):
    def to_truth(t):
        return t.astype(bool_)

    x = np.full(LENGTH, value, np.float32)
    assert (apply_unary(to_truth, x, bool_) == (value != 0)).all()


def test_scalars_convert_by_calls_too():
    @tw.kernel
    def called(z: Mut[f32, B], n: i32, x: f32) -> None:
        z.store(tw.full((B,), float(n) + f32(n) + f32(int(x)) + f32(bool(n)) + f32(abs(n)), f32))

    got = run(called, ((8,), f32), 8, -3, 2.75)
    assert (got == -3 - 3 + 2 + 1 + 3).all()
