"""Mathematics and arithmetic with modifiers, on every dtype that has them, against NumPy."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from running import LENGTH, assert_same, floats, run

import tilewright as tw
from tilewright import (
    Const,
    DType,
    Mut,
    Ref,
    bf16,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
)
from tilewright.dims import B, N, T
from tilewright.dtypes import numpy_dtype

FLOATS = [f16, bf16, f32, f64]
SIGNED = [i8, i16, i32, i64]
UNSIGNED = [u8, u16, u32, u64]
INTEGERS = SIGNED + UNSIGNED
TOLERANCE = {f16: 2e-3, bf16: 2e-2, f32: 2e-6, f64: 1e-14}
UNARY = {
    tw.exp: np.exp, tw.exp2: np.exp2, tw.log: np.log, tw.log2: np.log2, tw.sqrt: np.sqrt,
    tw.rsqrt: lambda x: 1 / np.sqrt(x), tw.sin: np.sin, tw.cos: np.cos, tw.tan: np.tan,
    tw.sinh: np.sinh, tw.cosh: np.cosh, tw.tanh: np.tanh, tw.ceil: np.ceil, tw.floor: np.floor,
    tw.abs: np.abs,
}  # fmt: skip


@tw.kernel
def all_functions(z: Mut[f32, B], x: Ref[f32, N], y: Ref[f32, N], *, D: Const[DType] = f32) -> None:
    a, b = tw.abs(x.load_like(z).astype(D)) + 1, y.load_like(z).astype(D)
    roots = tw.sqrt(a) + tw.rsqrt(a) + tw.log(a) + tw.log2(a) + a**b + a**2 + tw.pow(a, 3)
    waves = tw.sin(b) + tw.cos(b) + tw.tan(b) + tw.sinh(b) + tw.cosh(b) + tw.tanh(b)
    rest = tw.exp(b) + tw.exp2(b) + tw.ceil(b) + tw.floor(b) + tw.atan2(a, b) + tw.fma(a, b, 1)
    z.store((roots + waves + rest + a ** tw.arange(B)).astype(f32))


@tw.kernel
def all_modifiers(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    t = x.load_like(z)
    fast = tw.exp(t, rounding="approx") + tw.tanh(t, rounding="approx") + tw.exp2(t, ftz=True)
    root = tw.sqrt(tw.abs(t), rounding="approx", ftz=True) + tw.rsqrt(tw.abs(t) + 1, ftz=True)
    over = tw.divide(t, 3, rounding="full") + tw.divide(1, t + 99, rounding="approx", ftz=True)
    more = tw.add(t, 1, rounding="down") + tw.subtract(t, 1, rounding="up")
    most = tw.multiply(t, 3, rounding="zero", ftz=True) + tw.fma(t, t, 1, rounding="up", ftz=True)
    ends = tw.maximum(t, 0, nan=True) + tw.minimum(t, 0, nan=True, ftz=True)
    cut = t.astype(f16, rounding="zero").astype(f32) + t.astype(f64).astype(f32, rounding="down")
    z.store(fast + root + over + more + most + ends + cut)


@tw.kernel
def all_integer_powers(z: Mut[i64, B], x: Ref[i32, N]) -> None:
    t = x.load_like(z)
    small = (t.astype(i8) ** t.astype(i8)).astype(i32) + (t.astype(u16) ** 5).astype(i32)
    halves = tw.mulhi(t, t) + tw.mulhi(t.astype(u8), 200).astype(i32)
    wide = tw.mulhi(t.astype(i64), -3) + tw.mulhi(t.astype(u64), 3).astype(i64)
    z.store((t**t + small + halves + tw.mulhi(t.astype(i16), 99).astype(i32)).astype(i64) + wide)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.label)
@pytest.mark.parametrize("function", UNARY, ids=lambda f: f.name)
def test_functions_of_one_float(function, dtype):
    @tw.kernel
    def applied(z: Mut[T, B], x: Ref[T, N]) -> None:
        z.store(function(x.load_like(z)))

    x = floats(dtype, 1)
    if function in (tw.log, tw.log2, tw.sqrt, tw.rsqrt):
        x = (np.abs(x) + x.dtype.type(0.25)).astype(x.dtype)
    got = run(applied, ((LENGTH,), dtype), 32, x).astype(np.float64)
    tolerance = TOLERANCE[dtype]
    np.testing.assert_allclose(got, UNARY[function](x.astype(np.float64)), tolerance, tolerance)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.label)
def test_functions_of_two_floats(dtype):
    @tw.kernel
    def applied(z: Mut[T, B], x: Ref[T, N], y: Ref[T, N], *, WHICH: Const[int]) -> None:
        a, b = x.load_like(z), y.load_like(z)
        z.store(tw.atan2(a, b) if WHICH == 0 else tw.abs(a) ** b if WHICH == 1 else a**2)

    x, y = floats(dtype, 1), floats(dtype, 2)
    a, b = x.astype(np.float64), y.astype(np.float64)
    tolerance = TOLERANCE[dtype]
    for which, wanted in enumerate((np.arctan2(a, b), np.abs(a) ** b, a * a)):
        got = run(applied, ((LENGTH,), dtype), 32, x, y, WHICH=which).astype(np.float64)
        np.testing.assert_allclose(got, wanted, tolerance, tolerance)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.label)
@pytest.mark.parametrize("exponent", [-3, -1, 0, 1, 2, 7])
def test_a_float_to_the_power_of_an_integer(dtype, exponent):
    @tw.kernel
    def raised(z: Mut[T, B], x: Ref[T, N], n: i32) -> None:
        z.store(x.load_like(z) ** n)

    x = np.array([1, -1, 2, -0.5] * (LENGTH // 4)).astype(numpy_dtype(dtype))
    got = run(raised, ((LENGTH,), dtype), 32, x, exponent)
    assert_same(got, (x.astype(np.float64) ** exponent).astype(x.dtype))


def test_a_power_of_a_literal_base():
    @tw.kernel
    def raised(z: Mut[f32, B], x: Ref[f32, N], n: i32) -> None:
        z.store(2.0 ** x.load_like(z) + (3**n).astype(f32))

    x = floats(f32)
    got = run(raised, ((LENGTH,), f32), 32, x, 4)
    np.testing.assert_allclose(got, 2.0**x + 81, rtol=1e-6)


def wrapped_power(base: int, exponent: int, dtype: type[DType]) -> int:
    if exponent < 0:
        return 0
    bits = dtype.element.bits
    value = pow(int(base), int(exponent), 1 << bits)
    return value - (1 << bits) if dtype.signed and value >= 1 << (bits - 1) else value


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda d: d.label)
def test_integers_to_the_power_of_integers_wrap(dtype):
    @tw.kernel
    def raised(z: Mut[T, B], x: Ref[T, N], y: Ref[T, N]) -> None:
        z.store(x.load_like(z) ** y.load_like(z))

    kind = numpy_dtype(dtype)
    limits = np.iinfo(kind)
    some = [0, 1, 2, 3, 7, 31, limits.max, limits.min, limits.max - 1]
    x = np.resize(np.array(some, kind), 128)
    y = np.resize(np.repeat(np.array([0, 1, 2, 5, 30, limits.max, limits.min], kind), 9), 128)
    wanted = [wrapped_power(a, b, dtype) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    assert_same(run(raised, ((128,), dtype), 32, x, y), np.array(wanted, kind))


@settings(max_examples=15, deadline=None)
@given(st.sampled_from(INTEGERS), st.integers(0, 127))
def test_integers_to_a_constant_power(dtype, exponent):
    @tw.kernel
    def raised(z: Mut[T, B], x: Ref[T, N], *, POWER: Const[int]) -> None:
        z.store(x.load_like(z) ** POWER)

    x = np.arange(-32, 32).astype(numpy_dtype(dtype))
    wanted = [wrapped_power(a, exponent, dtype) for a in x.tolist()]
    got = run(raised, ((64,), dtype), 32, x, POWER=exponent)
    assert_same(got, np.array(wanted, x.dtype))


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda d: d.label)
def test_the_high_half_of_a_product(dtype):
    @tw.kernel
    def high(z: Mut[T, B], x: Ref[T, N], y: Ref[T, N]) -> None:
        z.store(tw.mulhi(x.load_like(z), y.load_like(z)))

    kind, bits = numpy_dtype(dtype), dtype.element.bits
    limits = np.iinfo(kind)
    some = [0, 1, 2, 3, limits.max, limits.min, limits.max // 3, limits.min // 5]
    x, y = np.repeat(np.array(some, kind), 8), np.tile(np.array(some, kind), 8)
    wanted = [a * b >> bits for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    assert_same(run(high, ((64,), dtype), 32, x, y), np.array(wanted, kind))


# --- modifiers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [f32, f64], ids=lambda d: d.label)
@pytest.mark.parametrize("function", [tw.add, tw.subtract, tw.multiply, tw.divide])
def test_rounding_up_and_down_enclose_the_exact_result(function, dtype):
    @tw.kernel
    def enclosed(z: Mut[T, B], x: Ref[T, N], y: Ref[T, N], *, HOW: Const[int]) -> None:
        a, b = x.load_like(z), y.load_like(z)
        if HOW == 0:
            z.store(function(a, b, rounding="down"))
        elif HOW == 1:
            z.store(function(a, b))
        elif HOW == 2:
            z.store(function(a, b, rounding="up"))
        else:
            z.store(function(a, b, rounding="zero"))

    x, y = floats(dtype, 1), floats(dtype, 2)
    down, near, up, zero = (run(enclosed, ((64,), dtype), 32, x, y, HOW=how) for how in range(4))
    assert ((down <= near) & (near <= up)).all()
    assert (np.nextafter(down, np.inf) >= up).all()
    assert (down != up).any() or function is not tw.divide
    np.testing.assert_array_equal(zero, np.where(near > 0, down, up))


def test_flushing_takes_subnormal_numbers_to_zero():
    @tw.kernel
    def flushed(z: Mut[f32, B], x: Ref[f32, N], *, FTZ: Const[bool]) -> None:
        z.store(tw.multiply(x.load_like(z), 0.5, ftz=FTZ))

    x = np.full(64, 2.0**-126, np.float32)
    assert (run(flushed, ((64,), f32), 32, x, FTZ=True) == 0).all()
    assert (run(flushed, ((64,), f32), 32, x, FTZ=False) == 2.0**-127).all()


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.label)
def test_nan_wins_if_asked(dtype):
    @tw.kernel
    def larger(z: Mut[T, B], x: Ref[T, N], *, NAN: Const[bool]) -> None:
        t = x.load_like(z)
        z.store(tw.maximum(t, 0, nan=NAN) + tw.minimum(0, t, nan=NAN))

    x = np.resize(np.array([1, math.nan, -2, 3]).astype(numpy_dtype(dtype)), 64)
    assert_same(run(larger, ((64,), dtype), 32, x, NAN=True), x)
    wanted = np.where(np.isnan(x.astype(np.float64)), 0, x.astype(np.float64)).astype(x.dtype)
    assert_same(run(larger, ((64,), dtype), 32, x, NAN=False), wanted)


def test_modifiers_may_be_left_out_on_integers():
    @tw.kernel
    def plain(z: Mut[u8, B], x: Ref[u8, N]) -> None:
        t = x.load_like(z)
        z.store(tw.add(tw.multiply(t, 3), tw.subtract(t, 1)))

    x = np.arange(64, dtype=np.uint8)
    assert_same(run(plain, ((64,), u8), 32, x), x * 4 - np.uint8(1))


@pytest.mark.parametrize("n", [1, 7, 31, 97])
def test_all_of_them_on_ragged_tensors(n):
    x, y = floats(f32, 1, n), floats(f32, 2, n)
    a, b = np.abs(x.astype(np.float64)) + 1, y.astype(np.float64)
    wanted = (
        np.sqrt(a) + 1 / np.sqrt(a) + np.log(a) + np.log2(a) + a**b + a**2 + a**3
        + np.sin(b) + np.cos(b) + np.tan(b) + np.sinh(b) + np.cosh(b) + np.tanh(b)
        + np.exp(b) + np.exp2(b) + np.ceil(b) + np.floor(b) + np.arctan2(a, b) + a * b + 1
        + a ** (np.arange(n) % 16)
    )  # fmt: skip
    np.testing.assert_allclose(run(all_functions, ((n,), f32), 16, x, y), wanted, rtol=1e-4)
