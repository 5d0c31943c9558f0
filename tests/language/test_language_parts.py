"""Tiles put together and taken apart, and their bits read as others, against NumPy."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from running import TX, TZ, assert_same, run

import tilewright as tw
from tilewright import (
    Const,
    Mut,
    Ref,
    ReportForm,
    bf16,
    bool_,
    f4e2m1fn,
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
from tilewright.dtypes import numpy_dtype

DTYPES = [bool_, i8, i32, u16, i64, f16, bf16, f32, f64, f8e4m3fn, f8e5m2]


@tw.kernel
def all_parts(z: Mut[f32, BM, BN], x: Ref[f32, M, N], n: i32) -> None:
    t = x.load_like(z)
    top = tw.extract(t, (n, 0), (BM // 2, BN))
    both = tw.cat((top, top * 2), axis=0)
    quarters = tw.cat((top[:, ::][:, :], top, top, top), axis=1) if BN < 0 else both
    z.store(tw.insert(quarters, top, (n % 2, 0)) + tw.insert(t, tw.zeros((1, BN), f32), (n, 0)))


@tw.kernel
def all_bits(z: Mut[u8, B], x: Ref[u8, N]) -> None:
    t = x.load_like(z)
    fours = tw.unpack(t, i4)
    halves = tw.unpack(t, f16) * 2
    words = tw.bitcast(tw.unpack(t, f32), u32) + 1
    z.store(tw.pack(fours.astype(i8).astype(i4)) + tw.pack(halves) + tw.pack(words))


@tw.kernel
def four_bit_floats(z: Mut[f32, BM, BN], x: Ref[u8, M, N]) -> None:
    pairs = x.partition(BM, BN // 2)[z.index[0], 0]
    numbers = tw.unpack(pairs, f4e2m1fn)
    again = tw.unpack(tw.pack(numbers), f4e2m1fn)
    z.store(again.astype(f32) + numbers.astype(f32))


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.label)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_tiles_one_after_the_other(dtype, axis):
    @tw.kernel
    def joined(z: Mut[T, 8, 8], x: Ref[T, M, N], y: Ref[T, M, N], *, AXIS: Const[int]) -> None:
        shape = (4, 8) if AXIS == 0 else (8, 4)
        a, b = x.partition(shape)[0, 0], y.partition(shape)[0, 0]
        z.store(tw.cat((a, b), axis=AXIS))

    shape = (4, 8) if axis == 0 else (8, 4)
    x = (np.arange(32) % 2 if dtype is bool_ else np.arange(32)).reshape(shape)
    x = x.astype(numpy_dtype(dtype))
    got = run(joined, ((8, 8), dtype), (8, 8), x, x[::-1].copy(), AXIS=axis)
    assert_same(got, np.concatenate((x, x[::-1]), axis))


def test_four_tiles_in_order():
    @tw.kernel
    def joined(z: Mut[i32, B], x: Ref[i32, N]) -> None:
        p = x.partition(2)
        z.store(tw.cat((p[3], p[1], p[2], p[0]), -1))

    got = run(joined, ((8,), i32), 8, np.arange(8, dtype=np.int32))
    assert_same(got, np.array([6, 7, 2, 3, 4, 5, 0, 1], np.int32))


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.label)
def test_parts_by_their_number(dtype):
    @tw.kernel(deny_checks=True)
    def taken(z: Mut[T, 4, 4], x: Ref[T, M, N], *, ROW: Const[int], COL: Const[int]) -> None:
        z.store(tw.extract(x.partition(8, 16)[0, 0], (ROW, COL), (4, 4)))

    x = np.arange(128).reshape(8, 16) % (2 if dtype is bool_ else 97)
    x = x.astype(numpy_dtype(dtype))
    for i, j in ((0, 0), (1, 3), (1, 0)):
        got = run(taken, ((4, 4), dtype), (4, 4), x, ROW=i, COL=j)
        assert_same(got, x[4 * i : 4 * i + 4, 4 * j : 4 * j + 4])


def test_an_insertion_replaces_one_part():
    @tw.kernel(deny_checks=True)
    def replaced(z: Mut[i32, 8, 8], x: Ref[i32, M, N]) -> None:
        t = x.load_like(z)
        for i in range(4):
            for j in range(2):
                part = tw.extract(t, (i, j), (2, 4))
                t = tw.insert(t, part + 100 * i + 1000 * j, (i, j))
        z.store(t)

    x = np.arange(64, dtype=np.int32).reshape(8, 8)
    rows, columns = np.arange(8)[:, None] // 2, np.arange(8)[None, :] // 4
    assert_same(
        run(replaced, ((8, 8), i32), (8, 8), x), (x + 100 * rows + 1000 * columns).astype("i4")
    )


@settings(max_examples=12, deadline=None)
@given(st.integers(-3, 9), st.integers(-3, 9), st.sampled_from([np.int32, np.int64, np.uint8]))
def test_an_index_read_on_the_device_is_checked(i, j, kind):
    """Outside, the nearest part is read and nothing is replaced; and it is reported."""

    @tw.kernel
    def moved(z: Mut[i32, 8, 8], x: Ref[i32, M, N], at: Ref[T, 2]) -> None:
        where = at.partition(1)
        t = x.load_like(z)
        i, j = where[0].item(), where[1].item()
        z.store(tw.insert(t, tw.extract(t, (i, 0), (2, 8)) * 10, (j, 0)))

    x = np.arange(64, dtype=np.int32).reshape(8, 8)
    at = np.array([i, j]).astype(kind)
    z = tw.full((8, 8), 77, i32)
    op = moved(z.partition(8, 8), tw.from_numpy(x), tw.from_numpy(at))
    i, j = (int(number) for number in at)
    if 0 <= i < 4 and 0 <= j < 4:
        op.sync()
        wanted = x.copy()
        wanted[2 * j : 2 * j + 2] = x[2 * i : 2 * i + 2] * 10
        assert_same(z.numpy(), wanted)
        return
    with pytest.raises(tw.OutOfBoundsError, match="of the tile `t`, which has 4 parts of 2"):
        op.sync()


def test_what_an_index_outside_leaves_behind():
    @tw.kernel(report=ReportForm.NONE)
    def moved(z: Mut[i32, 16], x: Ref[i32, N], n: Ref[i32, 1]) -> None:
        t, far = x.partition(8)[0], n.partition(1)[0].item()
        inserted = tw.insert(t, tw.zeros((2,), i32), far)
        nearest = tw.extract(t, far, 2)[None, :].broadcast_to(4, 2).reshape(8)
        z.store(tw.cat((inserted, nearest)))

    x = np.arange(8, dtype=np.int32)
    for far, nearest in ((4, [6, 7]), (-1, [0, 1]), (2**31 - 1, [6, 7]), (-(2**31), [0, 1])):
        got = run(moved, ((16,), i32), 16, x, np.array([far], np.int32))
        assert_same(got, np.array([*x, *nearest * 4], np.int32))


# --- bits -----------------------------------------------------------------------------------------

SAME_WIDTH = [
    (i8, u8), (u8, f8e4m3fn), (f8e5m2, i8), (f8e4m3fn, f8e5m2), (i16, u16), (f16, u16),
    (bf16, i16), (f16, bf16), (u32, f32), (f32, i32), (u64, f64), (i64, u64), (f64, i64),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), SAME_WIDTH, ids=lambda d: d.label)
def test_bits_read_as_another_dtype(before, after):
    @tw.kernel
    def read(z: Mut[TZ, B], x: Ref[TX, N]) -> None:
        z.store(tw.bitcast(x.load_like(z), z.dtype))

    bits = np.random.default_rng(0).integers(0, 256, 32 * before.element.bits // 8, np.uint8)
    x = bits.view(numpy_dtype(before))
    got = run(read, ((32,), after), 16, x)
    assert got.dtype == numpy_dtype(after)
    assert got.tobytes() == bits.tobytes()


@pytest.mark.parametrize("dtype", [i4, f4e2m1fn], ids=lambda d: d.label)
def test_pairs_of_4_bits_in_bytes_the_first_low(dtype):
    @tw.kernel
    def unpacked(z: Mut[f32, 4, 16], x: Ref[u8, M, N], *, D: Const[tw.DType]) -> None:
        z.store(tw.unpack(x.partition(4, 8)[z.index[0], 0], D).astype(f32))

    bits = np.random.default_rng(1).integers(0, 256, (8, 8)).astype(np.uint8)
    halves = np.stack((bits & 15, bits >> 4), -1).reshape(8, 16)
    if dtype is i4:
        wanted = ((halves.astype(np.int8) << 4) >> 4).astype(np.float32)
    else:
        wanted = halves.view(ml_dtypes.float4_e2m1fn).astype(np.float32)
    assert_same(run(unpacked, ((8, 16), f32), (4, 16), bits, D=dtype), wanted)


@pytest.mark.parametrize("dtype", [i4, f4e2m1fn, i8, u16, f16, bf16, i32, f32, f64, u64, f8e5m2],
                         ids=lambda d: d.label)  # fmt: skip
def test_packing_undoes_unpacking(dtype):
    @tw.kernel
    def again(z: Mut[u8, B], x: Ref[u8, N], *, D: Const[tw.DType]) -> None:
        z.store(tw.pack(tw.unpack(x.load_like(z), D)))

    bits = np.random.default_rng(2).integers(0, 256, 61).astype(np.uint8)
    assert_same(run(again, ((61,), u8), 16, bits, D=dtype), bits)


@pytest.mark.parametrize("dtype", [u16, f32, i64], ids=lambda d: d.label)
def test_wider_elements_are_bytes_the_low_one_first(dtype):
    @tw.kernel
    def bytes_of(z: Mut[u8, 64], x: Ref[T, N], *, WIDTH: Const[int]) -> None:
        z.store(tw.pack(x.partition(64 // WIDTH)[z.index[0]]))

    width = dtype.element.bits // 8
    x = np.arange(-20, 128 // width - 20).astype(numpy_dtype(dtype))
    got = run(bytes_of, ((128,), u8), 64, x, WIDTH=width)
    assert got.tobytes() == x.astype(x.dtype.newbyteorder("<")).tobytes()


def test_numbers_of_4_bits_convert_in_every_direction():
    @tw.kernel
    def converted(z: Mut[i32, B], x: Ref[f32, N]) -> None:
        t = x.load_like(z)
        cut = t.astype(i4)
        wrapped = t.astype(i32).astype(i4)
        truth = (t > 0).astype(i4)
        some = tw.full((B,), -3, i4).astype(i32) + tw.zeros((B,), i4).astype(i32)
        z.store(
            cut.astype(i32) + 100 * wrapped.astype(i64).astype(i32) + 10000 * truth.astype(i32)
            + 100000 * cut.astype(bool_).astype(i32) + some + cut.astype(f16).astype(i32)
        )  # fmt: skip

    x = np.array([0, 1, 7, 8, -8, -9, 100.5, -100.5, 2.9, -2.9, np.inf, np.nan, 15, 16, 23, -1])
    x = x.astype(np.float32)
    cut = np.trunc(np.clip(np.nan_to_num(x, posinf=99), -8, 7)).astype(np.int32)
    whole = np.nan_to_num(np.clip(x, -(2.0**31), 2.0**31 - 1)).astype(np.float64)
    low = ((np.clip(whole, -(2**31), 2**31 - 1).astype(np.int64) & 15) ^ 8) - 8
    wanted = 2 * cut + 100 * low + 10000 * (x > 0) + 100000 * (cut != 0) - 3
    assert_same(run(converted, ((16,), i32), 16, x), wanted.astype(np.int32))
