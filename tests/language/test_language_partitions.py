"""Partitions in any order, windows, clips, hints of loads, and indices of every width."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from running import assert_same, numpy_of, run

import tilewright as tw
from tilewright import Const, Mut, Ref, f32, i8, i16, i32, i64, u8, u16, u32, u64
from tilewright.dims import BD, BM, BN, B, D, K, M, N
from tilewright.frontend.signature.samples import sample_specialization
from tilewright.ir.attributes import TargetHints
from tilewright.ir.ops.memory import LoadPtr, LoadView, StoreView

INTEGERS = (i8, i16, i32, i64, u8, u16, u32, u64)


class TI(tw.AnyDType): ...


def numbered(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + 1


def padded(x: np.ndarray, start: tuple[int, ...], tile: tuple[int, ...]) -> np.ndarray:
    """A tile that starts anywhere in an array; zero beyond its edge."""
    result = np.zeros(tile, x.dtype)
    part = x[tuple(slice(s, s + t) for s, t in zip(start, tile, strict=True))]
    result[tuple(slice(extent) for extent in part.shape)] = part
    return result


# --- order ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0), (2, 1, 0), (0, 2, 1)])
@pytest.mark.parametrize("shape", [(5, 9, 17), (8, 16, 4), (1, 3, 2)])
def test_axes_in_another_order(order, shape):
    a, b, c = order

    @tw.kernel(deny_checks=True)
    def permuted(z: Mut[f32, BM, BN, BD], x: Ref[f32, M, N, D]) -> None:
        p = x.partition(BM, BN, BD, order=(a, b, c))
        z.store(p[z.index])

    x = numbered(*shape)
    wanted = x.transpose(order)
    assert_same(run(permuted, (wanted.shape, f32), (4, 2, 8), x), wanted)


def test_the_extent_that_is_checked_is_that_of_the_tensors_own_axis():
    """`p[i, j]` of a transposed partition: i runs along axis 1, and a launch that mixes them up,
    which would be inside if the axes were not exchanged, is refused."""

    @tw.kernel(deny_checks=True)
    def transposed(z: Mut[f32, BM, BN], x: Ref[f32, M, N]) -> None:
        z.store(x.partition(BM, BN, order=(1, 0))[z.index])

    x = tw.from_numpy(numbered(64, 16))
    with pytest.raises(tw.LaunchError, match="`x`, axis 1"):
        transposed(tw.zeros((64, 16), f32).partition(16, 16), x)
    assert_same(run(transposed, ((16, 64), f32), (16, 16), x), numbered(64, 16).T)


def test_loops_over_a_permuted_partition_are_proved():
    @tw.kernel(deny_checks=True)
    def sums(z: Mut[f32, BM], x: Ref[f32, K, M], *, BK: Const[int] = 8) -> None:
        p = x.partition(BM, BK, order=(1, 0))
        total = tw.zeros((BM,), f32)
        for k in range(p.num_tiles(1)):
            total += tw.sum(p[z.index[0], k], axis=1)
        z.store(total)

    x = numbered(21, 10)
    assert_same(run(sums, ((10,), f32), 4, x), x.sum(axis=0))


# --- tiles that divide their tensor ---------------------------------------------------------------


@tw.kernel
def doubled_on_trust(z: Mut[f32, BM, tw.All], x: Ref[f32, M, N], *, EXACT: Const[bool]) -> None:
    xs, parts = x.partition(BM, 8, exact=EXACT), z.partition(BM, 8, exact=EXACT)
    for j in range(parts.num_tiles(1)):
        with tw.unsafe("both have one shape"):
            part = xs.load_unchecked(z.index[0], j)
            parts.store_unchecked(part, 0, j)
            parts.store_unchecked(parts.load_unchecked(0, j) + part, 0, j)


@tw.kernel(deny_checks=True)
def doubled(z: Mut[f32, BM, tw.All], x: Ref[f32, M, N], *, EXACT: Const[bool] = True) -> None:
    tw.require(z.shape[0] == M and z.shape[1] == N)
    xs, parts = x.partition(BM, 8, exact=EXACT), z.partition(BM, 8, exact=EXACT)
    for j in range(parts.num_tiles(1)):
        parts.store(xs[z.index[0], j], 0, j)
        parts.store(parts[0, j] + xs[z.index[0], j], 0, j)


@pytest.mark.parametrize("twice", [doubled, doubled_on_trust])
def test_exact_tiles_have_no_mask(twice):
    x = numbered(6, 24)
    assert_same(run(twice, ((6, 24), f32), (2, None), x, EXACT=True), 2 * x)
    for exact, promised in ((True, (True, True)), (False, ())):
        constants = {"EXACT": exact}
        chosen = sample_specialization(twice.signature, "sm_90", constants)
        [kernel] = twice.specialized(chosen).module.functions
        accesses = [op for op in kernel.walk() if isinstance(op, LoadView | StoreView)]
        assert {op.inbounds for op in accesses} == {promised}


@pytest.mark.parametrize(("shape", "said"), [((6, 23), r"x\.shape\[1\] % 8"), ((5, 24), "0. % 2")])
def test_a_launch_whose_tiles_are_not_exact_is_refused(shape, said):
    x = numbered(*shape)
    with pytest.raises(tw.LaunchError, match=f"{said} == 0, since its tiles are to be exact"):
        run(doubled, (shape, f32), (2, None), x)
    assert_same(run(doubled, (shape, f32), (2, None), x, EXACT=False), 2 * x)


# --- tiles that lie inside their tensor -----------------------------------------------------------


@tw.kernel(deny_checks=True)
def doubled_by_parts(z: Mut[f32, BM, tw.All], x: Ref[f32, M, N]) -> None:
    tw.require(z.shape[0] == M and z.shape[1] == N)
    xs, parts = x.partition(BM, 8, whole=True), z.partition(BM, 8, whole=True)
    i, inside = z.index[0], parts.num_tiles(1)
    for j in range(inside):
        parts.store(xs[i, j], 0, j)
        parts.store(parts[0, j] + xs[i, j], 0, j)
    edge, rest = x.partition(BM, 8), z.partition(BM, 8)
    for j in range(inside, rest.num_tiles(1)):
        rest.store(edge[i, j] + edge[i, j], 0, j)


@pytest.mark.parametrize("columns", [1, 7, 8, 9, 23, 24])
def test_whole_tiles_end_before_the_partial_one(columns):
    x = numbered(6, columns)
    assert_same(run(doubled_by_parts, ((6, columns), f32), (2, None), x), 2 * x)


def test_whole_tiles_have_no_mask():
    chosen = sample_specialization(doubled_by_parts.signature, "sm_90", {})
    [kernel] = doubled_by_parts.specialized(chosen).module.functions
    accesses = [op for op in kernel.walk() if isinstance(op, LoadView | StoreView)]
    assert [op.inbounds for op in accesses] == [(True, True)] * 5 + [()] * 3


def test_a_launch_with_rows_beyond_the_whole_tiles_is_refused():
    x = numbered(5, 24)
    with pytest.raises(tw.LaunchError, match="the axis has 2 whole tiles, 0 to 1"):
        run(doubled_by_parts, ((5, 24), f32), (2, None), x)
    assert_same(run(doubled_by_parts, ((5, 24), f32), (1, None), x), 2 * x)


def test_a_guard_proves_that_a_piece_is_whole():
    @tw.kernel(deny_checks=True)
    def copy(z: Mut[f32, BM, BN], x: Ref[f32, M, N]) -> None:
        tw.require(z.shape[0] == M and z.shape[1] == N)
        i, j = z.index
        if i < z.shape[0] // BM and j < z.shape[1] // BN:
            z.partition(BM, BN, whole=True).store(x.partition(BM, BN, whole=True)[i, j], 0, 0)
        else:
            z.store(-x.partition(BM, BN)[i, j])

    x = numbered(5, 21)
    expected = -x
    expected[:4, :16] *= -1
    assert_same(run(copy, ((5, 21), f32), (2, 8), x), expected)


def test_an_index_behind_the_whole_tiles_is_reported():
    @tw.kernel
    def last(z: Mut[f32, BM], x: Ref[f32, N], at: i32) -> None:
        z.store(x.partition(BM, whole=True)[at])

    x = numbered(10)
    assert_same(run(last, ((4,), f32), 4, x, 1), x[4:8])
    with pytest.raises(tw.LaunchError, match="the axis has 2 whole tiles, 0 to 1"):
        run(last, ((4,), f32), 4, x, 2)


def test_exact_tiles_of_permuted_axes():
    @tw.kernel(deny_checks=True)
    def transposed(z: Mut[f32, BM, BN], x: Ref[f32, M, N]) -> None:
        z.store(x.partition(BM, BN, order=(1, 0), exact=True)[z.index])

    x = numbered(8, 12)
    assert_same(run(transposed, ((12, 8), f32), (4, 8), x), x.T)
    with pytest.raises(tw.LaunchError, match=r"x\.shape\[0\] % 8 == 0"):
        run(transposed, ((12, 9), f32), (4, 8), numbered(9, 12))


# --- windows --------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from([1, 2, 7, 8, 16, 23]),
    st.sampled_from([1, 3, 8, 13]),
    st.sampled_from([1, 2, 3, 4, 7, 16]),
    st.sampled_from([1, 2, 5, 8]),
)
def test_windows_start_at_every_step(rows, columns, row_step, column_step):
    @tw.kernel(deny_checks=True)
    def windows(z: Mut[f32, BM, BN], x: Ref[f32, M, N], *, SM: Const[int], SN: Const[int]) -> None:
        w = x.windows(BM, BN, step=(SM, SN))
        tw.require(w.num_tiles(0) * BM == z.shape[0])
        tw.require(w.num_tiles(1) * BN == z.shape[1])
        z.store(w[z.index])

    x = numbered(rows, columns)
    counts = -(-rows // row_step), -(-columns // column_step)
    shape = counts[0] * 4, counts[1] * 4
    got = run(windows, (shape, f32), (4, 4), x, SM=row_step, SN=column_step)
    for i, j in np.ndindex(counts):
        wanted = padded(x, (i * row_step, j * column_step), (4, 4))
        assert_same(got[4 * i : 4 * i + 4, 4 * j : 4 * j + 4], wanted)


def test_windows_are_tied_to_tiles_of_their_step():
    """Window k of step 8 begins where tile k of 8 does, so one count serves both."""

    @tw.kernel(deny_checks=True)
    def maxima(z: Mut[f32, B], x: Ref[f32, N], y: Ref[f32, N]) -> None:
        tiles, windows = x.partition(8), y.windows(32, step=8)
        best = tw.full((32,), -1, f32)
        for k in range(tiles.num_tiles(0)):
            best = tw.maximum(best, windows[k] - tw.sum(tiles[k]) * 0)
        z.store(best)

    x = numbered(43)
    wanted = np.max([padded(x, (k * 8,), (32,)) for k in range(6)], axis=0)
    assert_same(run(maxima, ((32,), f32), 32, x, x), wanted)


def test_windows_pad_and_may_leave_gaps():
    @tw.kernel(deny_checks=True)
    def sparse(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        z.store(x.windows(B, step=16, padding=float("inf"))[z.index[0]])

    x = numbered(34)
    got = run(sparse, ((12,), f32), 4, x)
    assert_same(got, np.array([*x[:4], *x[16:20], *x[32:], np.inf, np.inf], np.float32))


def test_a_window_behind_the_tensor_is_outside():
    @tw.kernel
    def read(z: Mut[f32, B], x: Ref[f32, N], at: Ref[i32, K]) -> None:
        z.store(x.windows(B, step=3)[at.gather(0).item()])

    x = numbered(20)
    for k in range(7):
        got = run(read, ((8,), f32), 8, x, np.array([k], np.int32))
        assert_same(got, padded(x, (3 * k,), (8,)))
    with pytest.raises(tw.OutOfBoundsError, match="7 windows of 8, one every 3"):
        run(read, ((8,), f32), 8, x, np.array([7], np.int32))


def test_more_blocks_than_windows_are_refused_at_launch():
    @tw.kernel
    def each(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        z.store(x.windows(B, step=7)[z.index[0]])

    with pytest.raises(tw.LaunchError, match=r"`x`, axis 0: .* has 3 windows, 0 to 2"):
        run(each, ((32,), f32), 8, numbered(20))


# --- clip and widths ------------------------------------------------------------------------------


def edges(dtype: np.dtype) -> list[int]:
    """Integers near every place where a narrower type would wrap into the axis."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    wrapped = (base + i for base in (0, 2**8, 2**16, 2**32, 2**63, -(2**32)) for i in (-1, 0, 2))
    return [number for number in (low, high, *wrapped) if low <= number <= high]


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda dtype: dtype.label)
def test_clip_brings_any_integer_into_the_axis(dtype):
    @tw.kernel(deny_checks=True)
    def nearest(z: Mut[f32, BM, BN], x: Ref[f32, M, N], ids: Ref[TI, K]) -> None:
        rows = x.partition(1, BN)
        z.store(rows[rows.clip(ids.gather(z.index[0]).item(), 0), z.index[1]])

    x, ids = numbered(5, 16), np.array([3, *edges(numpy_of(dtype))], numpy_of(dtype))
    got = run(nearest, ((len(ids), 16), f32), (1, 16), x, ids)
    assert_same(got, x[[min(max(int(i), 0), 4) for i in ids]])


def test_clip_follows_the_order_and_works_on_windows():
    @tw.kernel(deny_checks=True)
    def corner(z: Mut[f32, BM, BN], x: Ref[f32, M, N], n: i64) -> None:
        p = x.partition(BM, BN, order=(1, 0))
        w = x.windows(BN, BM, step=(1, 2))
        far = w[w.clip(n, 0), w.clip(n, 1)]
        z.store(p[p.clip(n, 0), p.clip(n, 1)] + far.T)

    x = numbered(20, 7)
    wanted = padded(x, (16, 6), (4, 2)).T + padded(x, (19, 6), (4, 2)).T
    assert_same(run(corner, ((2, 4), f32), (2, 4), x, 2**40), wanted)


def test_clip_behind_a_guard_asks_nothing_of_launches_that_do_not_get_there():
    @tw.kernel(deny_checks=True)
    def nearest_or_one(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[i32, K]) -> None:
        p, total = x.partition(B), tw.zeros((B,), f32)
        if p.num_tiles(0) > 0:
            z.store(p[p.clip(ids.gather(0).item(), 0)])
        else:
            z.store(tw.ones((B,), f32))
        for k in range(p.num_tiles(0)):
            total += p[p.clip(k + 1, 0)]
        z.store(z.load() + total)

    x, at = numbered(3 * 8), np.array([7], np.int32)
    assert_same(run(nearest_or_one, ((8,), f32), 8, x, at), x[16:] * 3 + x[8:16])
    assert_same(run(nearest_or_one, ((8,), f32), 8, x[:0], at), np.ones(8, np.float32))


def test_clip_behind_another_guard_needs_an_axis_only_where_it_may_get_there():
    @tw.kernel
    def some(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[i32, K], n: i32) -> None:
        p, at = x.partition(B), ids.gather(0).item()
        z.store(tw.zeros((B,), f32))
        if n > 2:
            z.store(p[p.clip(at, 0)])
        if at > 2:
            z.store(p[p.clip(at, 0)])

    x, low, high = numbered(8), np.array([0], np.int32), np.array([3], np.int32)
    assert_same(run(some, ((8,), f32), 8, x, low, 2), np.zeros(8, np.float32))
    assert_same(run(some, ((8,), f32), 8, x, low, 3), x)
    assert_same(run(some, ((8,), f32), 8, x, high, 0), x)

    @tw.kernel
    def known(z: Mut[f32, B], x: Ref[f32, N], n: i32) -> None:
        p = x.partition(B)
        z.store(tw.zeros((B,), f32))
        if n > 2:
            z.store(p[p.clip(n, 0)])

    assert_same(run(known, ((8,), f32), 8, x[:0], 2), np.zeros(8, np.float32))
    # A place that is read from memory decides in the kernel whether an empty axis is reached.
    assert_same(run(some, ((8,), f32), 8, x[:0], low, 2), np.zeros(8, np.float32))
    for kernel, numbers in ((known, (3,)), (some, (low, 3)), (some, (high, 2))):
        with pytest.raises(
            tw.OutOfBoundsError, match="has 0 tiles of 8, so no index can be clipped to it"
        ):
            run(kernel, ((8,), f32), 8, x[:0], *numbers)


def test_clip_that_every_block_makes_needs_an_axis():
    @tw.kernel
    def nearest(z: Mut[f32, B], x: Ref[f32, N], n: i32) -> None:
        p = x.partition(B)
        z.store(p[p.clip(n, 0)])

    with pytest.raises(tw.LaunchError, match=r"requires `x\.shape\[0\] > 0, since an index"):
        run(nearest, ((8,), f32), 8, numbered(8)[:0], 3)


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda dtype: dtype.label)
def test_an_index_is_checked_before_it_is_narrowed(dtype):
    @tw.kernel
    def read(z: Mut[f32, B], x: Ref[f32, N], at: Ref[TI, K]) -> None:
        z.store(x.partition(B)[at.gather(0).item()])

    x = numbered(4 * 8)
    for number in (0, 3, *edges(numpy_of(dtype))):
        at = np.array([number], numpy_of(dtype))
        if 0 <= number < 4:
            assert_same(run(read, ((8,), f32), 8, x, at), x[8 * number : 8 * number + 8])
        else:
            with pytest.raises(tw.OutOfBoundsError, match="which has 4 tiles of 8"):
                run(read, ((8,), f32), 8, x, at)


@pytest.mark.parametrize("number", [0, 3, 4, -1, 2**32, 2**32 + 1, -(2**32)])
def test_a_wide_scalar_is_checked_at_launch(number):
    @tw.kernel(deny_checks=True)
    def read(z: Mut[f32, B], x: Ref[f32, N], at: i64) -> None:
        z.store(x.partition(B)[at])

    x = numbered(4 * 8)
    if 0 <= number < 4:
        assert_same(run(read, ((8,), f32), 8, x, number), x[8 * number : 8 * number + 8])
    else:
        with pytest.raises(tw.LaunchError, match="index"):
            run(read, ((8,), f32), 8, x, number)


def test_a_wide_index_stores_into_a_part():
    @tw.kernel
    def fill(z: Mut[f32, B], at: Ref[u64, K]) -> None:
        z.partition(4).store(tw.full((4,), 5, f32), at.gather(z.index[0]).item())

    with pytest.raises(tw.OutOfBoundsError, match="skipped the write"):
        run(fill, ((16,), f32), 8, np.array([1, 2**32], np.uint64))
    got = run(fill, ((16,), f32), 8, np.array([1, 0], np.uint64))
    assert_same(got, np.repeat(np.array([77, 5, 5, 77], np.float32), 4))


def test_an_extent_that_leaves_no_room_for_a_tile_is_refused():
    @tw.kernel
    def read(z: Mut[i8, B], x: Ref[i8, N]) -> None:
        z.store(x.partition(B)[0])

    z = tw.zeros((8,), i8)
    with pytest.raises(tw.LaunchError, match="2130706432 are allowed, so split the axis"):
        read(z.partition(8), tw.zeros((2**31 - 1,), i8))


# --- hints of loads -------------------------------------------------------------------------------


def test_hints_reach_the_loads():
    @tw.kernel(deny_checks=True)
    def read(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        p = x.partition(B)
        a = p.load(z.index[0], latency=4, allow_tma=False)
        b = x.gather(tw.arange(B, i32), latency=7)
        z.store(a + b + p.load(z.index[0], latency=None))

    x = numbered(16)
    assert_same(run(read, ((8,), f32), 8, x), 3 * x[:8])
    compiled = read.specialized(sample_specialization(read.signature, "sm_90"))
    [kernel] = compiled.module.functions
    loads = [op for op in kernel.walk() if isinstance(op, LoadView | LoadPtr)]
    assert [op.hints for op in loads] == [
        TargetHints.of(latency=4, allow_tma=False),
        TargetHints.of(latency=7),
        None,
    ]
