"""Accum: tiles and single elements that every block accumulates into one tensor.

The kernels stand at module level, so that the assembler sees them, too. Every launch is watched for
races. An output of which each block owns a piece says how many blocks there are.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tilewright import (
    Accum,
    AnyDType,
    Const,
    Mapped,
    Mut,
    Ref,
    bf16,
    f16,
    f32,
    f64,
    i8,
    i32,
    i64,
    u32,
    u64,
)
from tilewright.dims import B, K, M, N
from tilewright.dtypes import numpy_dtype
from tilewright.errors import BorrowError, LaunchError, OutOfBoundsError


class T(AnyDType): ...


class I(AnyDType): ...  # noqa: E742 - of the indices


class BINS(tw.Dim): ...


@pytest.fixture(autouse=True)
def _watched():
    with tw.device("cpu"), tw.race_check():
        yield


def blocks(length, piece):
    """An output that only says how many blocks run."""
    return tw.zeros((length,), i32).partition(piece)


# --- single elements ------------------------------------------------------------------------------


@tw.kernel(deny_checks=True)
def histogram(done: Mut[i32, B], counts: Accum[i32, BINS], x: Ref[I, N]) -> None:
    i = done.index[0]
    inside = i * B + tw.arange(B) < N
    counts.add_at(1, x.load_like(done), mask=inside)


@pytest.mark.parametrize("index", [i8, i32, i64, u32, u64], ids=lambda d: d.label)
@pytest.mark.parametrize("length", [0, 1, 97, 256, 1000])
def test_a_histogram_counts_every_element_once(index, length):
    low = 0 if index in (u32, u64) else -5
    x = np.random.default_rng(length).integers(low, 40, length).astype(numpy_dtype(index))
    counts = tw.from_numpy(np.arange(31, dtype=np.int32))
    histogram(blocks(length, 64), counts, tw.from_numpy(x)).sync()
    kept = x[(x >= 0) & (x < 31)].astype(np.int64)
    np.testing.assert_array_equal(counts.numpy(), np.arange(31) + np.bincount(kept, minlength=31))


def test_indices_far_outside_are_dropped():
    """Also those whose low 32 bits lie inside."""
    x = np.array([2**32, -(2**32), 2**63 - 1, -(2**63), 3, 3 + 2**32], np.int64)
    counts = tw.zeros((8,), i32)
    histogram(blocks(6, 8), counts, tw.from_numpy(x)).sync()
    np.testing.assert_array_equal(counts.numpy(), [0, 0, 0, 1, 0, 0, 0, 0])


@tw.kernel(deny_checks=True)
def add_rows(done: Mut[i32, B], out: Accum[T, M, K], ids: Ref[i32, N], x: Ref[T, N, K]) -> None:
    """`np.add.at(out, ids, x)`: row numbers down, columns across."""
    i = done.index[0]
    rows = ids.load_like(done)[:, None]
    inside = (i * B + tw.arange(B) < N)[:, None]
    xs = x.partition(B, 16)
    for j in range(xs.num_tiles(1)):
        out.add_at(xs[i, j], rows, j * 16 + tw.arange(16), mask=inside)


@pytest.mark.parametrize("dtype", [f16, bf16, f32, f64, i32, i64, u32, u64], ids=lambda d: d.label)
@pytest.mark.parametrize(
    ("n", "m", "k"), [(50, 7, 13), (64, 4, 32), (1, 1, 1), (37, 3, 0), (0, 2, 5)]
)
def test_rows_are_added_where_their_ids_say(dtype, n, m, k):
    rng = np.random.default_rng(n)
    x = rng.integers(0, 8, (n, k)).astype(numpy_dtype(dtype))  # exact in every dtype
    ids = rng.integers(-1, m + 1, n).astype(np.int32)
    out = tw.zeros((m, k), dtype)
    add_rows(blocks(n, 16), out, tw.from_numpy(ids), tw.from_numpy(x)).sync()
    wanted = np.zeros((m, k), np.float64)
    known = (ids >= 0) & (ids < m)
    np.add.at(wanted, ids[known], x[known].astype(np.float64))
    np.testing.assert_array_equal(out.numpy().astype(np.float64), wanted)


@tw.kernel(deny_checks=True)
def keep_extremes(
    done: Mut[i32, B], least: Accum[T, K], most: Accum[T, K], ids: Ref[i32, N], x: Ref[T, N]
) -> None:
    inside = done.index[0] * B + tw.arange(B) < N
    at, values = ids.load_like(done), x.load_like(done)
    least.min_at(values, at, mask=inside)
    most.max_at(values, at, mask=inside)


@tw.kernel(deny_checks=True)
def gather_bits(
    done: Mut[i32, B],
    every: Accum[T, K],
    some: Accum[T, K],
    odd: Accum[T, K],
    ids: Ref[i32, N],
    x: Ref[T, N],
) -> None:
    inside = done.index[0] * B + tw.arange(B) < N
    at, values = ids.load_like(done), x.load_like(done)
    every.and_at(values, at, mask=inside)
    some.or_at(values, at, mask=inside)
    odd.xor_at(values, at, mask=inside)


@pytest.mark.parametrize("dtype", [i32, i64, u32, u64], ids=lambda d: d.label)
def test_extremes_and_bits_of_each_group(dtype):
    rng = np.random.default_rng(0)
    info = np.iinfo(numpy_dtype(dtype))
    x = rng.integers(info.min, info.max, 300, info.dtype, endpoint=True)
    ids = rng.integers(0, 9, 300).astype(np.int32)
    start = rng.integers(info.min, info.max, 10, info.dtype, endpoint=True)

    def accumulated(kernel, count):
        outs = [tw.from_numpy(start) for _ in range(count)]
        kernel(blocks(300, 64), *outs, tw.from_numpy(ids), tw.from_numpy(x)).sync()
        return [out.numpy() for out in outs]

    def wanted(function):
        out = start.copy()
        function.at(out, ids, x)
        return out

    got = [*accumulated(keep_extremes, 2), *accumulated(gather_bits, 3)]
    functions = (np.minimum, np.maximum, np.bitwise_and, np.bitwise_or, np.bitwise_xor)
    for out, function in zip(got, functions, strict=True):
        np.testing.assert_array_equal(out, wanted(function))


@tw.kernel(deny_checks=True)
def scalars(
    done: Mut[i32, B], total: Accum[f32, K], grid: Accum[i32, M, BINS], x: Ref[f32, N]
) -> None:
    """Numbers as values and as indices, and a number as a tile."""
    total.add(tw.sum(x.load_like(done)), 0)
    grid.add_at(1, done.index[0], 2)
    grid.add_at(10, tw.arange(4)[:, None], tw.arange(8)[None, :], mask=done.index[0] == 0)


def test_numbers_are_tiles_of_one_element():
    x = np.arange(100, dtype=np.float32)
    total, grid = tw.zeros((3,), f32), tw.zeros((3, 5), i32)
    scalars(blocks(100, 32), total, grid, tw.from_numpy(x)).sync()
    np.testing.assert_array_equal(total.numpy(), [4950, 0, 0])
    wanted = np.full((3, 5), 10)
    wanted[:, 2] += 1  # the fourth block has no row
    np.testing.assert_array_equal(grid.numpy(), wanted)


def test_a_slice_is_accumulated_into_and_nothing_around_it():
    whole = tw.zeros((6, 9), f32)
    ids = np.array([0, 1, 1, 5, 0, 0, 1, 1], np.int32)
    x = tw.ones((8, 3), f32)
    add_rows(blocks(8, 16), whole[1:3, 2:5], tw.from_numpy(ids), x).sync()
    wanted = np.zeros((6, 9), np.float32)
    wanted[1, 2:5], wanted[2, 2:5] = 3, 4
    np.testing.assert_array_equal(whole.numpy(), wanted)


# --- tiles ----------------------------------------------------------------------------------------


@tw.kernel(deny_checks=True)
def column_sums(done: Mut[i32, B], sums: Accum[T, K], x: Ref[T, N, K]) -> None:
    xs = x.partition(B, 8)
    for j in range(xs.num_tiles(1)):
        sums.add(tw.sum(xs[done.index[0], j], axis=0), j)


@given(n=st.integers(0, 40), k=st.integers(0, 40), piece=st.sampled_from([1, 4, 16]))
@settings(max_examples=25, deadline=None)
def test_tiles_are_added_and_their_overhang_is_dropped(n, k, piece):
    x = np.arange(n * k, dtype=np.int32).reshape(n, k)
    frame = tw.full((k + 8,), 7, i32)  # what stands behind the tensor stays as it is
    sums = frame[:k]
    column_sums(blocks(n, piece), sums, tw.from_numpy(x)).sync()
    np.testing.assert_array_equal(frame.numpy(), 7 + np.append(x.sum(axis=0), np.zeros(8)))


@tw.kernel(deny_checks=True)
def split_k(
    done: Mut[i32, B], z: Accum[f32, M, N], x: Ref[f16, M, K], y: Ref[f16, K, N],
    *, BM: Const[int] = 16, BN: Const[int] = 32, BK: Const[int] = 16,
) -> None:  # fmt: skip
    """Each block multiplies a stretch of K and adds to the whole product."""
    k = done.index[0]
    tw.require(done.shape[0] == K and B == BK)
    xs, ys = x.partition(BM, BK), y.partition(BK, BN)
    for i in range(xs.num_tiles(0)):
        for j in range(ys.num_tiles(1)):
            z.add(xs[i, k] @ ys[k, j], i, j)


@pytest.mark.parametrize(("m", "k", "n"), [(32, 64, 32), (17, 100, 33), (1, 1, 1)])
def test_a_product_split_along_k(m, k, n):
    rng = np.random.default_rng(m)
    x, y = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((m, k), (k, n)))
    z = tw.zeros((m, n), f32)
    split_k(blocks(k, 16), z, tw.from_numpy(x), tw.from_numpy(y)).sync()
    np.testing.assert_array_equal(z.numpy(), x.astype(np.float32) @ y.astype(np.float32))


@tw.kernel(deny_checks=True)
def walk_and_count(z: Mapped[i32, B], visits: Accum[i32, K]) -> None:
    for at in z.indices():
        z.store(tw.full((B,), at[0], i32), at)
        visits.add(1, 0)


def test_a_walk_accumulates_next_to_its_stores():
    z, visits = tw.zeros((100,), i32), tw.zeros((1,), i32)
    walk_and_count(z.partition(8).persistent(blocks=3), visits).sync()
    np.testing.assert_array_equal(z.numpy(), np.arange(100) // 8)
    assert visits.numpy()[0] == 13


# --- checks ---------------------------------------------------------------------------------------


@tw.kernel
def add_by_id(done: Mut[i32, B], sums: Accum[i32, K], ids: Ref[i32, N]) -> None:
    where = ids.partition(1)[done.index[0]].item()
    sums.add(tw.ones((4,), i32), where)
    done.store(tw.ones((B,), i32))


def test_an_index_outside_is_skipped_and_reported():
    sums, done = tw.zeros((10,), i32), tw.zeros((4,), i32)
    ids = tw.from_numpy(np.array([0, 2, 3, 2], np.int32))
    op = add_by_id(done.partition(1), sums, ids).submit()
    with pytest.raises(OutOfBoundsError, match=r"index 3 is outside axis 0 of `sums`"):
        op.sync()
    with pytest.raises(OutOfBoundsError):
        sums.numpy()
    with pytest.raises(OutOfBoundsError):  # to add is to use what was there
        histogram(blocks(4, 4), sums, ids)


# --- at launch ------------------------------------------------------------------------------------


def test_an_accumulator_overlaps_no_other_argument():
    done, counts = blocks(8, 8), tw.zeros((8,), i32)
    with pytest.raises(BorrowError, match="written by this launch and also read by it"):
        histogram(done, counts, counts)
    with pytest.raises(BorrowError, match="written by this launch and also read by it"):
        histogram(blocks(4, 4), counts[2:6], counts[:4])
    ids, x = tw.zeros((8,), i32), tw.zeros((8,), i32)
    with pytest.raises(BorrowError, match="also written by it"):
        keep_extremes(done, counts, counts, ids, x)
    with pytest.raises(BorrowError, match="also written by it"):
        histogram(counts.partition(8), counts, x)


def test_an_accumulator_is_held_for_writing_until_its_operation_is_run():
    counts, x = tw.zeros((8,), i32), tw.zeros((8,), i32)
    op = histogram(blocks(8, 8), counts, x)
    with pytest.raises(BorrowError, match="holds counts for writing"):
        counts.numpy()
    with pytest.raises(BorrowError, match="holds counts for writing"):
        histogram(blocks(8, 8), counts, x)
    op.close()


def test_an_accumulator_is_passed_uncut():
    x = tw.zeros((8,), i32)
    with pytest.raises(LaunchError, match="pass the tensor itself, not cut"):
        histogram(blocks(8, 8), tw.zeros((8,), i32).partition(8), x)
    with pytest.raises(LaunchError, match=r"`counts` of kernel `histogram` holds i32"):
        histogram(blocks(8, 8), tw.zeros((8,), f32), x)


def test_the_dims_of_an_accumulator_are_tied_like_those_of_an_input():
    ids, x = tw.zeros((8,), i32), tw.zeros((8, 5), f32)
    with pytest.raises(LaunchError, match="`x` of kernel `add_rows` has extent 5 along axis 1"):
        add_rows(blocks(8, 8), tw.zeros((3, 6), f32), ids, x)


def test_a_tile_may_be_larger_than_the_tensor():
    """One tile there is; all of it that lies outside is dropped."""
    frame = tw.zeros((16,), i32)
    add_by_id(blocks(1, 1), frame[:3], tw.from_numpy(np.array([0], np.int32))).sync()
    np.testing.assert_array_equal(frame.numpy(), [1, 1, 1] + [0] * 13)


# --- kernels that own nothing ---------------------------------------------------------------------


@tw.kernel(deny_checks=True)
def count_blocks(total: Accum[i32, M, N]) -> None:
    total.add(1, 0, 0)
    total.add_at(tw.block_id(0) + 1, tw.block_id(0), tw.block_id(1))


@pytest.mark.parametrize("grid", [(1, 1), (5, 3), (0, 4)])
def test_a_kernel_that_only_accumulates_runs_on_a_given_grid(grid):
    total = tw.zeros((5, 3), i32)
    count_blocks.grid(*grid)(total).sync()
    wanted = np.zeros((5, 3))
    wanted[: grid[0], : grid[1]] = np.arange(grid[0])[:, None] + 1
    wanted[0, 0] += np.prod(grid)
    np.testing.assert_array_equal(total.numpy(), wanted)


def test_without_a_grid_such_a_kernel_is_refused():
    with pytest.raises(LaunchError, match="grid"):
        count_blocks(tw.zeros((5, 3), i32))


@tw.kernel(deny_checks=True)
def count_in_one_place(total: Accum[i32], most: Accum[u32]) -> None:
    total.add(1)
    total.add_at(tw.arange(4), mask=tw.block_id(0) == 0)  # 0 + 1 + 2 + 3, into one element
    most.max(tw.block_id(0).astype(u32))


def test_a_tensor_without_axes_is_accumulated_into():
    total, most = tw.from_numpy(np.array(5, np.int32)), tw.from_numpy(np.array(0, np.uint32))
    count_in_one_place.grid(7)(total, most).sync()
    assert (total.numpy()[()], most.numpy()[()]) == (5 + 7 + 6, 6)
