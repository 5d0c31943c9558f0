"""`x.gather(…)`: any integers as indices, never a read outside, compared with NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from running import assert_same, numpy_of, run

import tilewright as tw
from tilewright import Mut, Ref, bf16, bool_, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64
from tilewright.dims import BM, BN, B, K, M, N, T
from tilewright.jit.bind import launch as bind_module

INTEGERS = (i8, i16, i32, i64, u8, u16, u32, u64)


class TI(tw.AnyDType): ...


def taken(x: np.ndarray, indices, mask=True, padding=0) -> np.ndarray:
    """What a gather gives, by Python's unbounded integers."""
    indices = np.broadcast_arrays(mask, *indices)
    mask, indices = indices[0], indices[1:]
    result = np.full(mask.shape, padding, x.dtype)
    for place in np.ndindex(mask.shape):
        at = tuple(int(index[place]) for index in indices)
        if mask[place] and all(0 <= i < n for i, n in zip(at, x.shape, strict=True)):
            result[place] = x[at]
    return result


@tw.kernel(deny_checks=True)
def rows(z: Mut[T, BM, BN], x: Ref[T, M, N], ids: Ref[TI, K], low: i32, padding: T) -> None:
    row = ids.partition(BM)[z.index[0]]
    column = z.index[1] * BN + tw.arange(BN, i32)
    z.store(x.gather(row[:, None], column, mask=column >= low, padding=padding))


def gathered_rows(x, ids, low=0, padding=0):
    """`rows` of NumPy arrays."""
    dtype = {numpy_of(dtype): dtype for dtype in (f16, f32, f64, bf16, *INTEGERS)}[x.dtype]
    return run(rows, ((len(ids), x.shape[1]), dtype), (4, 8), x, ids, low, padding)


def edges(dtype) -> list[int]:
    """Integers near every place where a narrower type would wrap into the axis."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    wrapped = (base + i for base in (0, 2**8, 2**16, 2**32, 2**63, -(2**32)) for i in (-1, 0, 2, 7))
    return [number for number in (low, high, *wrapped) if low <= number <= high]


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda dtype: dtype.label)
def test_indices_of_every_dtype(dtype):
    x = np.arange(7 * 13, dtype=np.float32).reshape(7, 13)
    ids = np.array([0, 6, 3, 7, *edges(numpy_of(dtype))], numpy_of(dtype))
    wanted = taken(x, (ids[:, None], np.arange(13)), np.arange(13) >= 2, 5)
    assert_same(gathered_rows(x, ids, 2, 5), wanted)


@pytest.mark.parametrize("dtype", [bool_, f16, bf16, f32, f64, *INTEGERS], ids=lambda d: d.label)
def test_elements_of_every_dtype(dtype):
    @tw.kernel(deny_checks=True)
    def backwards(z: Mut[T, B], x: Ref[T, N]) -> None:
        at = x.shape[0] - 1 - (z.index[0] * B + tw.arange(B, i32))
        z.store(x.gather(at))

    x = (np.arange(37) % 3 if dtype is not bool_ else np.arange(37) % 3 == 1).astype(
        numpy_of(dtype)
    )
    wanted = taken(x, (36 - np.arange(41),))
    assert_same(run(backwards, ((41,), dtype), 16, x), wanted)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_gathers_like_numpy(data):
    """Ragged, prime and empty shapes, strides of slices, any indices."""
    m, n = (data.draw(st.sampled_from([0, 1, 2, 5, 8, 17])) for _ in range(2))
    count = data.draw(st.integers(1, 9))
    dtype = numpy_of(data.draw(st.sampled_from(INTEGERS)))
    limits = np.iinfo(dtype)
    near = st.integers(max(limits.min, -3), min(limits.max, m + 2))
    far = st.sampled_from(edges(dtype))
    ids = data.draw(st.lists(near | far, min_size=count, max_size=count))
    whole = np.arange((m + 2) * (n + 3), dtype=np.int32).reshape(m + 2, n + 3) + 1
    host, x = tw.from_numpy(whole)[1 : m + 1, 1 : n + 1], whole[1 : m + 1, 1 : n + 1]
    z = tw.full((count, 11), -7, i32)
    rows(z.partition(4, 8), host, tw.from_numpy(np.array(ids, dtype)), 1, -9).sync()
    wanted = taken(x, (np.array(ids, object)[:, None], np.arange(11)), np.arange(11) >= 1, -9)
    assert_same(z.numpy(), wanted)


def test_far_away_elements_are_reached_in_64_bits(monkeypatch):
    """The same kernel, specialised as for a tensor that 31 bits do not span."""
    x = np.arange(7 * 13, dtype=np.float32).reshape(7, 13)
    ids = np.array([0, 6, -1, 2**62, -(2**63), 2**33 + 1], np.int64)
    wanted = taken(x, (ids[:, None], np.arange(13)), padding=3)
    assert_same(gathered_rows(x, ids, 0, 3), wanted)
    monkeypatch.setattr(bind_module, "MAX_EXTENT", 12)
    assert_same(gathered_rows(x, ids, 0, 3), wanted)
    monkeypatch.setattr(bind_module, "MAX_EXTENT", 50)  # strides fit, the last element does not
    assert_same(gathered_rows(x, ids, 0, 3), wanted)


def test_scalars_give_a_scalar_and_ranks_go_up_to_six():
    @tw.kernel(deny_checks=True)
    def corner(
        z: Mut[f32, B], x: Ref[f32, N, N, N, N, N, N], at: Ref[u32, K], scale: Ref[f32]
    ) -> None:
        i = at.gather(0).item()
        j = at.gather(1).item()
        total = x.gather(i, j, 0, -1, 0, 0, padding=0.5) + x.gather(i, j, 1, j, i, j)
        z.store(tw.full((B,), total * scale.item(), f32))

    x = np.arange(3**6, dtype=np.float32).reshape((3,) * 6)
    at = np.array([2, 1], np.uint32)
    got = run(corner, ((4,), f32), 4, x, at, tw.full((), 2, f32))
    assert got[0] == 2 * (0.5 + x[2, 1, 1, 1, 2, 1])


def test_indices_broadcast_and_masks_widen_the_result():
    @tw.kernel(deny_checks=True)
    def spread(z: Mut[i32, BM, BN], x: Ref[i32, N], n: i32) -> None:
        lines = tw.arange(BM, i32)[:, None]
        z.store(x.gather(tw.arange(BN, i32), mask=lines < n, padding=-5))

    x = np.arange(6, dtype=np.int32) + 10
    got = run(spread, ((4, 8), i32), (4, 8), x, 3)
    wanted = taken(x, (np.arange(8),), np.arange(4)[:, None] < 3, -5)
    assert_same(got, wanted)


def test_a_gather_of_what_a_gather_read_needs_no_check():
    @tw.kernel(deny_checks=True)
    def follow(z: Mut[i32, B], links: Ref[i32, N]) -> None:
        at = z.index[0] * B + tw.arange(B, i32)
        for _ in range(3):
            at = links.gather(at, padding=-1)
        z.store(at)

    links = np.array([3, 2, 0, 9, -4, 5, 1, 2**31 - 1], np.int32)
    at = np.arange(8)
    for _ in range(3):
        at = taken(links, (at,), padding=-1)
    assert_same(run(follow, ((8,), i32), 4, links), at)


def test_an_element_of_every_dtype_without_axes():
    @tw.kernel(deny_checks=True)
    def filled(z: Mut[T, B], x: Ref[T]) -> None:
        z.store(tw.full((B,), x.item(), x.dtype))

    for dtype in (f16, bf16, f32, f64, i8, i64, u16):
        got = run(filled, ((8,), dtype), 8, tw.full((), 3, dtype))
        assert_same(got, np.full(8, 3, numpy_of(dtype)))
