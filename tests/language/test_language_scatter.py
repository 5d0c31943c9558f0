"""Elements of a piece written by mask and by index: the rest stays, and other blocks' do, too."""

import itertools

import numpy as np
import pytest
from function_cases import STORED

import tilewright as tw
from tilewright import AnyDType, Mapped, Mut, Ref, bool_, f32, i32
from tilewright.dims import BM, BN, B, M, N, T
from tilewright.dtypes import numpy_dtype


class ID(AnyDType): ...


@pytest.fixture(autouse=True)
def watched():
    """No launch here races, whatever it is given."""
    with tw.race_check():
        yield


def bytes_of(dtype, shape, seed=0) -> np.ndarray:
    kind = numpy_dtype(dtype)
    if dtype is bool_:
        return np.random.default_rng(seed).integers(0, 2, shape).astype(bool)
    bits = np.random.default_rng(seed).integers(0, 256, (*shape, kind.itemsize)).astype(np.uint8)
    return bits.view(kind)[..., 0]


def assert_same_bits(got, wanted) -> None:
    bits = f"u{wanted.dtype.itemsize}"
    np.testing.assert_array_equal(got.view(bits), wanted.view(bits))


# --- masks ----------------------------------------------------------------------------------------


@tw.kernel
def piece_by_mask(z: Mut[T, BM, BN], x: Ref[T, M, N], keep: Ref[bool_, M, N]) -> None:
    z.store(x.load_like(z), mask=keep.load_like(z))


@tw.kernel(deny_checks=True)
def parts_by_mask(z: Mut[T, BM, tw.All], x: Ref[T, M, N], keep: Ref[bool_, M, N]) -> None:
    tw.require(z.shape[0] == M and z.shape[1] == N)
    i, parts = z.index[0], z.partition(BM, 4)
    for j in range(parts.num_tiles(1)):
        kept = keep.partition(BM, 4)[i, j]
        parts.store(x.partition(BM, 4)[i, j], 0, j, mask=kept)


@tw.kernel
def walk_by_mask(z: Mapped[T, BM, BN], x: Ref[T, M, N], keep: Ref[bool_, M, N]) -> None:
    tw.require(z.shape[0] == M and z.shape[1] == N)
    for at in z.indices():
        i, j = at
        z.store(x.partition(BM, BN)[i, j], at, mask=keep.partition(BM, BN)[i, j])


CUTS = {
    piece_by_mask: lambda z: z.partition(4, 8),
    parts_by_mask: lambda z: z.partition(4, None),
    walk_by_mask: lambda z: z.partition(4, 8).persistent(blocks=3),
}


@pytest.mark.parametrize("dtype", STORED, ids=lambda d: d.label)
@pytest.mark.parametrize("kernel", CUTS, ids=lambda k: k.signature.kernel)
def test_where_the_mask_is_false_elements_stay(kernel, dtype):
    old, x = bytes_of(dtype, (10, 21), 1), bytes_of(dtype, (10, 21), 2)
    keep = np.random.default_rng(3).integers(0, 2, (10, 21)).astype(bool)
    z = tw.from_numpy(old.copy())
    kernel(CUTS[kernel](z), tw.from_numpy(x), tw.from_numpy(keep)).sync()
    assert_same_bits(z.numpy(), np.where(keep, x, old))


def test_a_mask_of_ragged_rows_and_one_that_is_a_number():
    @tw.kernel
    def ragged(z: Mut[f32, BM, BN], is_on: bool_) -> None:
        lanes = tw.arange(BM)[:, None]
        z.store(tw.full((BM, BN), 5, f32), mask=lanes % 2 == 0)
        z.store(tw.full((BM, BN), 7, f32), mask=is_on)

    offsets = tw.from_numpy(np.array([0, 3, 3, 8], np.int32))
    for is_on in (False, True):
        z = tw.zeros((10, 4), f32)
        ragged(z.partition(4, 4, segments=offsets), is_on).sync()
        rows = [0, 2, 3, 5, 7]  # even ones of the pieces 0-2, 3-6 and 7
        wanted = np.zeros((10, 4), np.float32)
        wanted[rows] = 5
        if is_on:
            wanted[:8] = 7
        np.testing.assert_array_equal(z.numpy(), wanted)


# --- indices --------------------------------------------------------------------------------------


@tw.kernel
def elements(z: Mut[T, B], x: Ref[T, N], at: Ref[ID, N]) -> None:
    b = z.index[0]
    z.scatter(x.partition(32)[b], at.partition(32)[b])


def scattered(old, x, at, piece, number):
    """What the blocks write, one value after the other."""
    result = old.copy()
    for n, (value, place) in enumerate(zip(x, at.tolist(), strict=True)):
        first = n // number * piece
        if 0 <= place < piece and first + place < len(result):
            result[first + place] = value
    return result


@pytest.mark.parametrize("dtype", STORED, ids=lambda d: d.label)
@pytest.mark.parametrize("piece", [16, 24])
def test_every_dtype_by_index(dtype, piece):
    old, x = bytes_of(dtype, (4 * piece - 5,), 1), bytes_of(dtype, (128,), 2)
    at = np.random.default_rng(4).integers(-3, piece + 3, 128).astype(np.int32)
    z = tw.from_numpy(old.copy())
    elements(z.partition(piece), tw.from_numpy(x), tw.from_numpy(at)).sync()
    assert_same_bits(z.numpy(), scattered(old, x, at, piece, 32))


@pytest.mark.parametrize("kind", [np.int64, np.uint64, np.uint8, np.int16])
def test_indices_of_every_width(kind):
    at = np.random.default_rng(5).integers(0, 20, 128).astype(kind)
    ends = np.iinfo(kind)
    at[::9], at[4::9] = ends.max, ends.min
    at[2::9] = (1 << 32) + 3 if ends.max > 1 << 33 else 3  # no place, unless it is cut to 32 bits
    old, x = np.zeros(64, np.float32), np.arange(1, 129, dtype=np.float32)
    z = tw.from_numpy(old.copy())
    elements(z.partition(16), tw.from_numpy(x), tw.from_numpy(at)).sync()
    np.testing.assert_array_equal(z.numpy(), scattered(old, x, at, 16, 32))


def test_many_values_for_one_element():
    @tw.kernel
    def all_at(z: Mut[i32, B], at: i32, n: i32) -> None:
        z.scatter(tw.arange(1024), at, mask=tw.arange(1024) < n)

    for n in (0, 1, 700, 1024):
        z = tw.full((16,), -1, i32)
        all_at(z.partition(8), 5, n).sync()
        wanted = [-1] * 5 + [n - 1] + [-1] * 2
        assert z.numpy().tolist() == wanted * 2


def test_a_matrix_and_a_whole_axis():
    @tw.kernel
    def spots(z: Mut[f32, BM, tw.All], rows: Ref[i32, N], columns: Ref[i32, N]) -> None:
        at = tw.arange(8)[None, :]  # of two axes: all pairs of a row and a column
        values = (tw.arange(8)[:, None] * 8 + at + 1).astype(f32)
        down, right = rows.gather(tw.arange(8))[:, None], columns.gather(at)
        z.scatter(values, down, right)
        z.scatter(99, 0, z.shape[1] - 1)

    generator = np.random.default_rng(0)
    rows, columns = (generator.integers(-1, n, 8).astype(np.int32) for n in (5, 12))
    z = tw.zeros((9, 11), f32)
    spots(z.partition(4, None), tw.from_numpy(rows), tw.from_numpy(columns)).sync()
    wanted = np.zeros((9, 11), np.float32)
    for first in (0, 4, 8):
        for i, j in itertools.product(range(8), range(8)):
            if 0 <= rows[i] < 4 and first + rows[i] < 9 and 0 <= columns[j] < 11:
                wanted[first + rows[i], columns[j]] = i * 8 + j + 1
        wanted[first, 10] = 99
    np.testing.assert_array_equal(z.numpy(), wanted)


def test_ragged_rows_and_steps_of_a_walk():
    @tw.kernel
    def ragged(z: Mut[i32, BM, BN]) -> None:
        lanes = tw.arange(8)
        z.scatter(lanes + 1, lanes - 1, 0)  # seven of a piece of four rows

    offsets = tw.from_numpy(np.array([0, 3, 8], np.int32))
    z = tw.zeros((10, 1), i32)
    ragged(z.partition(4, 1, segments=offsets)).sync()
    assert z.numpy()[:, 0].tolist() == [2, 3, 4, 2, 3, 4, 5, 2, 0, 0]

    @tw.kernel
    def walked(z: Mapped[i32, B]) -> None:
        for at in z.indices():
            z.piece(at).scatter(at[0] + tw.arange(4), 3 - tw.arange(4))

    z = tw.zeros((10,), i32)
    walked(z.partition(4).persistent(blocks=2)).sync()
    assert z.numpy().tolist() == [3, 2, 1, 0, 4, 3, 2, 1, 5, 4]
