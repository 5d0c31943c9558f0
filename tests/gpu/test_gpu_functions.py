"""The functions of the language on the GPU and on the CPU backend: integers and bits to the bit."""

import itertools
import math

import ml_dtypes
import numpy as np
import pytest
from gpu_kernels import GPU, poisoned, run_both

import tilewright as tw
from tilewright import (
    Const,
    DType,
    Mut,
    Ref,
    ReportForm,
    bf16,
    bool_,
    f8e4m3fn,
    f8e5m2,
    f16,
    f32,
    f64,
    i4,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
)
from tilewright.dims import BM, BN, B, M, N, T
from tilewright.dtypes import AnyDType, numpy_dtype

pytestmark = pytest.mark.gpu

INTEGERS = [i8, i16, i32, i64, u8, u16, u32, u64]
FLOATS = [f16, bf16, f32, f64, f8e4m3fn, f8e5m2]


class TX(AnyDType): ...


def exactly(launch, output, *inputs) -> None:
    got, wanted = run_both(launch, output, *inputs)
    assert got.dtype == wanted.dtype
    differ = got.view(np.uint8) != wanted.view(np.uint8)
    assert not differ.any(), (got.reshape(-1)[:32], wanted.reshape(-1)[:32])


# --- mathematics ----------------------------------------------------------------------------------


@tw.kernel
def maths(z: Mut[T, 8, B], x: Ref[T, N], y: Ref[T, N]) -> None:
    a, b = x.partition(B)[z.index[1]], y.partition(B)[z.index[1]]
    out = z.partition(1, B)
    out.store(tw.tan(a)[None, :], 0, 0)
    out.store(tw.sinh(a)[None, :], 1, 0)
    out.store(tw.cosh(a)[None, :], 2, 0)
    out.store(tw.atan2(a, b)[None, :], 3, 0)
    out.store((tw.abs(a) ** b)[None, :], 4, 0)
    out.store((a**2)[None, :], 5, 0)
    out.store((a ** (tw.arange(B) % 7 - 3))[None, :], 6, 0)
    out.store(tw.pow(a, 3)[None, :], 7, 0)


@pytest.mark.parametrize(
    ("kind", "tolerance"),
    [(np.float16, 4e-3), (ml_dtypes.bfloat16, 3e-2), (np.float32, 2e-5), (np.float64, 1e-12)],
)
def test_mathematics(kind, tolerance):
    generator = np.random.default_rng(0)
    x, y = (generator.uniform(0.1, 1.4, 61).astype(kind) for _ in "xy")
    got, wanted = run_both(
        lambda z, x, y: maths(z.partition(8, 64), x, y), poisoned((8, 61), kind), x, y
    )
    np.testing.assert_allclose(
        got.astype(np.float64), wanted.astype(np.float64), tolerance, tolerance
    )


@tw.kernel
def rounded(z: Mut[f32, 12, B], x: Ref[f32, N], y: Ref[f32, N]) -> None:
    a, b = x.partition(B)[z.index[1]], y.partition(B)[z.index[1]]
    out = z.partition(1, B)
    out.store(tw.add(a, b, rounding="up")[None, :], 0, 0)
    out.store(tw.subtract(a, b, rounding="down")[None, :], 1, 0)
    out.store(tw.multiply(a, b, rounding="zero")[None, :], 2, 0)
    out.store(tw.divide(a, b, rounding="up")[None, :], 3, 0)
    out.store(tw.fma(a, b, a, rounding="down")[None, :], 4, 0)
    out.store(tw.sqrt(tw.abs(a), rounding="up")[None, :], 5, 0)
    out.store(tw.multiply(a, 1e-38, ftz=True)[None, :], 6, 0)
    out.store(tw.maximum(a / 0 - a / 0, b, nan=True)[None, :], 7, 0)
    out.store(tw.minimum(a / 0 - a / 0, b)[None, :], 8, 0)
    out.store(a.astype(f16, rounding="zero").astype(f32)[None, :], 9, 0)
    out.store((a.astype(f64) / 3).astype(f32, rounding="up")[None, :], 10, 0)
    out.store((a // b + a % b)[None, :], 11, 0)


def test_roundings_to_the_bit():
    generator = np.random.default_rng(1)
    x, y = (generator.uniform(-2, 2, 64).astype(np.float32) for _ in "xy")
    got, wanted = run_both(
        lambda z, x, y: rounded(z.partition(12, 64), x, y), poisoned((12, 64), np.float32), x, y
    )
    np.testing.assert_array_equal(got, wanted)


# --- integers -------------------------------------------------------------------------------------


@tw.kernel(report=ReportForm.NONE)
def integers(z: Mut[i64, 12, B], x: Ref[T, N], y: Ref[T, N]) -> None:
    a, b = x.partition(B)[z.index[1]], y.partition(B)[z.index[1]]
    out = z.partition(1, B)
    out.store((a // b).astype(i64)[None, :], 0, 0)
    out.store((a % b).astype(i64)[None, :], 1, 0)
    out.store((a << b).astype(i64)[None, :], 2, 0)
    out.store((a >> b).astype(i64)[None, :], 3, 0)
    out.store((a**b).astype(i64)[None, :], 4, 0)
    out.store(tw.mulhi(a, b).astype(i64)[None, :], 5, 0)
    out.store(tw.maximum(a, b).astype(i64)[None, :], 6, 0)
    out.store(tw.minimum(a, b).astype(i64)[None, :], 7, 0)
    out.store(((a < b).astype(i64) + 2 * (a == b).astype(i64))[None, :], 8, 0)
    out.store((tw.abs(a) - (-b)).astype(i64)[None, :], 9, 0)
    out.store(tw.cumsum(a).astype(i64)[None, :], 10, 0)
    out.store((a.astype(f32) + b.astype(f32)).astype(i64)[None, :], 11, 0)


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda d: d.label)
def test_integers_to_the_bit(dtype):
    ends = np.iinfo(numpy_dtype(dtype))
    some = [0, 1, 2, 7, 31, ends.max, ends.min, ends.max - 1]
    pairs = np.array(list(itertools.product(some, some)), numpy_dtype(dtype))
    x, y = pairs[:, 0].copy(), pairs[:, 1].copy()
    exactly(lambda z, x, y: integers(z.partition(12, 64), x, y), poisoned((12, 64), np.int64), x, y)


@tw.kernel
def convert(z: Mut[T, B], x: Ref[TX, N]) -> None:
    z.store(x.load_like(z).astype(z.dtype))


@pytest.mark.parametrize("source", [*INTEGERS, *FLOATS, bool_], ids=lambda d: d.label)
def test_conversions_to_the_bit(source):
    kind = numpy_dtype(source)
    if source.element.is_float:
        limit = float(ml_dtypes.finfo(kind).max)
        some = [0, -0.0, 1, -1.5, 2.5, 127.5, -129, 255.5, 3e4, limit, -limit, np.inf, -np.inf]
        with np.errstate(over="ignore"):
            x = np.array([*some, np.nan, 1e9, -1e19]).astype(kind)
    elif source is bool_:
        x = np.resize(np.array([True, False]), 16)
    else:
        ends = np.iinfo(kind)
        x = np.resize(np.array([0, 1, ends.max, ends.min, ends.max // 3, 77], kind), 16)
    for to in (*INTEGERS, *FLOATS, bool_):
        if to is not source:
            got, wanted = run_both(
                lambda z, x: convert(z.partition(16), x), np.zeros(16, numpy_dtype(to)), x
            )
            assert got.dtype == wanted.dtype
            np.testing.assert_array_equal(
                got.astype(np.float64), wanted.astype(np.float64), f"{source.label} to {to.label}"
            )


# --- reductions and scans -------------------------------------------------------------------------


@tw.kernel
def places(z: Mut[i32, BM, 8], x: Ref[T, M, N]) -> None:
    t = x.partition(BM, 16)[z.index[0], 0]
    found = tw.cat((tw.argmax(t, 1, True), tw.argmin(t, 1, True)), axis=1)
    with_nan = tw.cat((tw.argmax(t, 1, True, nan=True), tw.argmin(t, 1, True, nan=True)), axis=1)
    truth = tw.cat((tw.any(t, 1, True), tw.all(t, 1, True)), axis=1).astype(i32)
    whole = tw.cat((tw.argmax(t)[None, None].broadcast_to(BM, 1),
                    tw.argmin(t)[None, None].broadcast_to(BM, 1)), axis=1)  # fmt: skip
    z.store(tw.cat((tw.cat((found, with_nan), axis=1), tw.cat((truth, whole), axis=1)), axis=1))


@pytest.mark.parametrize("dtype", [f16, bf16, f32, f64], ids=lambda d: d.label)
def test_places_with_nan_and_ties(dtype):
    generator = np.random.default_rng(2)
    x = generator.choice([0, -0.0, 1, -1, np.nan, np.inf, -np.inf, 2], (64, 16))
    x[0], x[1, 1:] = np.nan, np.nan
    exactly(
        lambda z, x: places(z.partition(8, 8), x), poisoned((64, 8), np.int32),
        x.astype(numpy_dtype(dtype)),
    )  # fmt: skip


@tw.kernel
def running(z: Mut[i32, 4, BM, BN], x: Ref[i32, M, N], *, BACK: Const[bool]) -> None:
    t = x.partition(BM, BN)[z.index[1], z.index[2]]
    out = z.partition(1, BM, BN)
    kept = tw.scan(t, lambda a, b: a if b == 0 else b, 0, axis=1, reverse=BACK)
    _, state = tw.scan((t, t * 3), lambda a, b, c, d: (a * c, b * c + d), (1, 0), 0, reverse=BACK)
    out.store(kept[None], 0, 0, 0)
    out.store(state[None], 1, 0, 0)
    total = tw.reduce(t, lambda a, b: a ^ b, 0, axis=0, keepdims=True)
    out.store(total.broadcast_to(BM, BN)[None], 2, 0, 0)
    out.store(tw.cumprod(t, axis=-1, reverse=BACK)[None], 3, 0, 0)


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("tile", [(16, 32), (1, 64), (64, 1), (8, 8)], ids=str)
def test_combinations_keep_their_order(tile, back):
    x = np.random.default_rng(3).integers(0, 4, (64, 64)).astype(np.int32)

    def launch(z, x):
        return running(z.partition(4, *tile), x, BACK=back)

    exactly(launch, poisoned((4, 64, 64), np.int32), x)


# --- parts, bits, random numbers ------------------------------------------------------------------


@tw.kernel
def moved(z: Mut[T, 16, 16], x: Ref[T, M, N], i: i32, j: i32) -> None:
    t = x.load_like(z)
    part = tw.extract(t, (i, j), (4, 8))
    joined = tw.cat((part, part.permute(0, -1)), axis=0)
    z.store(tw.insert(tw.insert(t, joined, (j, i % 2)), part, (3 - i, 1 - j)))


@pytest.mark.parametrize("dtype", [u8, f16, i32, f64], ids=lambda d: d.label)
@pytest.mark.parametrize(("i", "j"), [(0, 0), (3, 1), (2, 0)])
def test_parts(dtype, i, j):
    x = (np.arange(1024) % 250).reshape(32, 32).astype(numpy_dtype(dtype))

    def launch(z, x):
        return moved(z.partition(16, 16), x, i, j)

    exactly(launch, x * 0, x)


@tw.kernel
def bits(z: Mut[u8, B], x: Ref[u8, N], *, D: Const[DType]) -> None:
    z.store(tw.pack(tw.unpack(x.load_like(z), D)))


@pytest.mark.parametrize("dtype", [i4, u16, f16, i32, f32, u64], ids=lambda d: d.label)
def test_bits(dtype):
    x = np.random.default_rng(4).integers(0, 256, 200).astype(np.uint8)

    def launch(z, x):
        return bits(z.partition(64), x, D=dtype)

    exactly(launch, poisoned(200, np.int8).view(np.uint8), x)


@tw.kernel
def unpacked(z: Mut[i32, 64], x: Ref[u8, N]) -> None:
    t = x.partition(32)[z.index[0]]
    z.store(tw.unpack(t, i4).astype(i32) + tw.cat((t, t)).astype(f32).astype(i4).astype(i32) * 100)


def test_numbers_of_4_bits():
    x = np.arange(256, dtype=np.uint8)
    exactly(lambda z, x: unpacked(z.partition(64), x), poisoned(512, np.int32), x)


@tw.kernel
def numbers(z: Mut[T, B], seed: i64) -> None:
    z.store(tw.rand((B,), z.dtype, seed=seed, offset=z.index[0] * B))


@pytest.mark.parametrize("dtype", [f16, bf16, f32, f64], ids=lambda d: d.label)
def test_random_numbers_are_those_of_the_host(dtype):
    z = tw.zeros((1000,), dtype, device=GPU)
    numbers(z.partition(128), -(2**40) - 3).sync()
    wanted = tw.rand((1000,), dtype, seed=-(2**40) - 3, device="cpu").numpy()
    np.testing.assert_array_equal(z.numpy().view(np.uint8), wanted.view(np.uint8))


# --- what would be undefined ----------------------------------------------------------------------


@tw.kernel(report=ReportForm.NONE)
def undefined(z: Mut[i32, 8, B], x: Ref[i32, N]) -> None:
    t = x.partition(B)[0]
    least, minus = tw.full((B,), -(2**31), i32), tw.full((B,), -1, i32)
    inf, nan = tw.full((B,), math.inf, f32), tw.full((B,), math.nan, f32)
    out = z.partition(1, B)
    out.store((t // (t - t) + 100 * (t % (t - t)))[None, :], 0, 0)
    out.store((least // minus + least % minus)[None, :], 1, 0)
    out.store(((t << tw.full((B,), 32, i32)) + (-t >> tw.full((B,), 99, i32)))[None, :], 2, 0)
    cut = inf.astype(i32) // 2 + nan.astype(i32) + (-inf).astype(u8).astype(i32)
    out.store(cut[None, :], 3, 0)
    out.store((inf.astype(i4).astype(i32) + nan.astype(i64).astype(i32))[None, :], 4, 0)
    out.store((t**minus + t**least + least**t)[None, :], 5, 0)
    out.store((tw.abs(least) + tw.sum(tw.full((B,), 2**31 - 1, i32)))[None, :], 6, 0)
    out.store((t.astype(u8) >> tw.full((B,), 8, u8)).astype(i32)[None, :], 7, 0)


def test_what_would_be_undefined_to_the_bit():
    x = np.arange(3, 19, dtype=np.int32)
    exactly(lambda z, x: undefined(z.partition(8, 16), x), poisoned((8, 16), np.int32), x)


@tw.kernel(report=ReportForm.NONE)
def outside(z: Mut[i32, B], x: Ref[i32, N], far: Ref[i32, 1]) -> None:
    t, at = x.load_like(z), far.partition(1)[0].item()
    z.store(tw.insert(t, tw.extract(t, at, 2) + 1000, -at))


@pytest.mark.parametrize("far", [0, 5, -5, 7, 8, -(2**31), 2**31 - 1])
def test_parts_outside(far):
    x = np.arange(16, dtype=np.int32)

    def launch(z, x, far):
        return outside(z.partition(16), x, far)

    exactly(launch, poisoned(16, np.int32), x, np.array([far], np.int32))
