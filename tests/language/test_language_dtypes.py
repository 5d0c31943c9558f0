"""Every dtype: conversions between all of them, and the sign that integers are read with."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from running import TX, assert_same, run

import tilewright as tw
from tilewright import (
    Const,
    DType,
    Mut,
    Ref,
    bf16,
    bool_,
    f8e4m3fn,
    f8e5m2,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    tf32,
    u8,
    u16,
    u32,
    u64,
)
from tilewright.dims import B, N, T
from tilewright.dtypes import numpy_dtype

SIGNED, UNSIGNED = [i8, i16, i32, i64], [u8, u16, u32, u64]
INTEGERS = SIGNED + UNSIGNED
FLOATS = [f16, bf16, f32, f64, f8e4m3fn, f8e5m2]
STORED = [bool_, *INTEGERS, *FLOATS]


def samples(dtype: type[DType]) -> np.ndarray:
    """Numbers of a dtype, its ends among them, in a shape that a tile of 16 does not divide."""
    kind = numpy_dtype(dtype)
    if dtype is bool_:
        return np.resize(np.array([True, False, False]), 21)
    if dtype.element.is_float:
        limit = float(ml_dtypes.finfo(kind).max)
        some = [0, -0.0, 1, -1, 2.5, -3.5, 100, -100, limit, -limit, np.inf, -np.inf, np.nan, 7.75]
        with np.errstate(invalid="ignore", over="ignore"):
            return np.resize(np.array(some).astype(kind), 21)
    ends = np.iinfo(kind)
    some = [0, 1, 2, 7, 100, ends.max, ends.min, ends.max - 1, ends.max // 2, ends.max // 2 + 1]
    return np.resize(np.array(some, kind), 21)


def converted(x: np.ndarray, source: type[DType], to: type[DType]) -> np.ndarray:
    """What `astype` means, by way of exact Python numbers."""
    kind = numpy_dtype(to)
    if to is bool_:
        return x.astype(np.float64) != 0 if source.element.is_float else x != 0
    if to.element.is_float:
        wide = x if source.element.is_float else x.astype(object)
        return _nearest(wide, kind) if to.element.bits > 8 else _held(wide, kind)
    if source.element.is_float:
        ends = np.iinfo(kind)
        return np.array([_cut(float(v), ends.min, ends.max) for v in x.astype(np.float64)], kind)
    bits = np.array([int(v) & (1 << to.element.bits) - 1 for v in x.tolist()], object)
    return bits.astype(f"u{kind.itemsize}").view(kind)


def _held(x: np.ndarray, kind: np.dtype) -> np.ndarray:
    """8-bit floats end at their largest number."""
    limit = float(ml_dtypes.finfo(kind).max)
    return np.clip(x.astype(np.float64), -limit, limit).astype(kind)


def _nearest(x: np.ndarray, kind: np.dtype) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        if x.dtype != object:
            return x.astype(np.float64).astype(kind) if x.dtype != np.float64 else x.astype(kind)
        if kind == np.float64:
            return x.astype(np.float64)
        # Integers of up to 64 bits round once: by way of f64 only if that is exact.
        wide = np.array([_odd_double(int(v)) for v in x])
        return wide.astype(kind)


def _odd_double(number: int) -> float:
    """A double that rounds to any narrower float as the integer itself does."""
    size = abs(number)
    lost = max(size.bit_length() - 50, 0)
    kept = size >> lost << lost
    if kept != size:
        kept |= 1 << lost
    return float(kept if number >= 0 else -kept)


def _cut(number: float, low: int, high: int) -> int:
    if np.isnan(number):
        return 0
    return min(max(int(max(min(number, 2.0**70), -(2.0**70))), low), high)


@tw.kernel
def convert(z: Mut[T, B], x: Ref[TX, N]) -> None:
    z.store(x.load_like(z).astype(z.dtype))


PAIRS = [pair for pair in itertools.product(STORED, STORED) if pair[0] is not pair[1]]


@pytest.mark.parametrize(("source", "to"), PAIRS, ids=lambda d: d.label)
def test_conversions(source, to):
    x = samples(source)
    got = run(convert, ((21,), to), 16, x)
    wanted = converted(x, source, to)
    if to.element.is_float:
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got.astype(np.float64), wanted.astype(np.float64))
    else:
        np.testing.assert_array_equal(got, wanted)


def test_tf32_has_ten_bits():
    @tw.kernel
    def short(z: Mut[f32, B], x: Ref[f32, N], *, HOW: Const[int]) -> None:
        t = x.load_like(z)
        z.store((t.astype(tf32) if HOW == 0 else t.astype(tf32, rounding="zero")).astype(f32))

    x = np.array([1 + 2**-10, 1 + 2**-11, 1 + 3 * 2**-11, -1 - 2**-13], np.float32)
    assert_same(run(short, ((4,), f32), 4, x, HOW=0), np.array([x[0], 1, 1 + 2**-9, -1], "f4"))
    assert_same(run(short, ((4,), f32), 4, x, HOW=1), np.array([x[0], 1, x[0], -1], "f4"))


# --- signs ----------------------------------------------------------------------------------------


@tw.kernel
def signs(z: Mut[i64, B], x: Ref[T, N], y: Ref[T, N]) -> None:
    a, b = x.load_like(z), y.load_like(z)
    less = (a < b).astype(i64) + 2 * (a <= b).astype(i64) + 4 * (a > b).astype(i64)
    ends = tw.maximum(a, b).astype(i64) * 3 + tw.minimum(a, b).astype(i64) * 5
    divisor = tw.where(b == 0, 1, b)
    parts = (a // divisor).astype(i64) * 7 + (a % divisor).astype(i64) * 11
    bits = (a >> (b & 7)).astype(i64) * 13 + (a << (b & 3)).astype(i64) * 17
    z.store(less + ends + parts + bits + (-a).astype(i64) * 19 + tw.abs(a).astype(i64) * 23)


def wrapped(number: int, dtype: type[DType]) -> int:
    bits = dtype.element.bits
    low = number & (1 << bits) - 1
    return low - (1 << bits) if dtype.signed and low >> bits - 1 else low


def in_python(a: int, b: int, dtype: type[DType]) -> int:
    def as_i64(number: int) -> int:
        return wrapped(wrapped(number, dtype), i64)

    d = b or 1
    amount = wrapped(b & 7, dtype)
    total = (a < b) + 2 * (a <= b) + 4 * (a > b) + 3 * as_i64(max(a, b)) + 5 * as_i64(min(a, b))
    total += 7 * as_i64(a // d) + 11 * as_i64(a % d) + 13 * as_i64(a >> amount)
    return wrapped(total + 17 * as_i64(a << (b & 3)) + 19 * as_i64(-a) + 23 * as_i64(abs(a)), i64)


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda d: d.label)
def test_integers_are_read_with_their_own_sign(dtype):
    kind = numpy_dtype(dtype)
    ends = np.iinfo(kind)
    some = [0, 1, 2, 3, 7, ends.max, ends.min, ends.max - 1, ends.max // 2 + 1, ends.max // 3]
    some += [-1, -2] if dtype.signed else [ends.max - 5]
    pairs = list(itertools.product(some, some))
    x, y = (np.array([pair[n] for pair in pairs], kind) for n in range(2))
    wanted = np.array([in_python(int(a), int(b), dtype) for a, b in pairs], np.int64)
    assert_same(run(signs, (x.shape, i64), 32, x, y), wanted)


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda d: d.label)
def test_shifts_by_any_amount(dtype):
    @tw.kernel
    def shifted(z: Mut[T, B], x: Ref[T, N], y: Ref[T, N], *, LEFT: Const[bool]) -> None:
        a, b = x.load_like(z), y.load_like(z)
        z.store(a << b if LEFT else a >> b)

    kind, bits = numpy_dtype(dtype), dtype.element.bits
    ends = np.iinfo(kind)
    x = np.repeat(np.array([0, 1, 5, ends.max, ends.min], kind), 6)
    y = np.resize(np.array([0, 1, bits - 1, bits, ends.max, ends.min], kind), 30)
    amounts = [b if 0 <= b < bits else bits for b in y.tolist()]
    numbers = list(zip(x.tolist(), amounts, strict=True))
    up = np.array([wrapped(a << b, dtype) for a, b in numbers], kind)
    down = np.array([a >> b for a, b in numbers], kind)
    assert_same(run(shifted, ((30,), dtype), 16, x, y, LEFT=True), up)
    assert_same(run(shifted, ((30,), dtype), 16, x, y, LEFT=False), down)
