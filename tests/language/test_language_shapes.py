"""Shapes: broadcasting, new axes, transposition, reshape and permute, as in NumPy."""

import numpy as np
import pytest
from running import assert_same, run

import tilewright as tw
from tilewright import Mut, Ref, f32, i32
from tilewright.dims import BM, BN, B, D, K, M, N

MATRIX = np.arange(32, dtype=np.int32).reshape(4, 8)
ROW, COLUMN = np.arange(8, dtype=np.int32), np.arange(4, dtype=np.int32) * 100


def outer(row, column):
    return row[None, :] + column[:, None]


def outer_by_ellipsis(row, column):
    return row[None, ...] + column[..., None]


def row_first(row, column):
    return row + column[:, None]


@pytest.mark.parametrize("function", [outer, outer_by_ellipsis, row_first])
def test_broadcasting_of_vectors(function):
    @tw.kernel
    def combined(z: Mut[i32, BM, BN], row: Ref[i32, N], column: Ref[i32, M]) -> None:
        z.store(function(row.partition(BN)[0], column.partition(BM)[0]))

    assert_same(run(combined, ((4, 8), i32), (4, 8), ROW, COLUMN), function(ROW, COLUMN))


def test_broadcasting_of_higher_ranks():
    @tw.kernel
    def combined(z: Mut[i32, BM, BN, D], x: Ref[i32, M, N], y: Ref[i32, K]) -> None:
        t = x.partition(BM, BN)[0, 0]
        z.store(t[:, :, None] * y.partition(D)[0] - t[..., None])

    y = np.arange(2, dtype=np.int32) + 3
    wanted = MATRIX[:, :, None] * y - MATRIX[..., None]
    assert_same(run(combined, ((4, 8, 2), i32), (4, 8, 2), MATRIX, y), wanted)


def transposed(t):
    return t.T


def flattened_and_back(t):
    return t.reshape(32).reshape((8, 4))


def swapped(t):
    return t.permute(1, 0)


def swapped_tuple(t):
    return t.permute((1, 0))


def through_three_axes(t):
    return t.reshape(2, 2, 8).permute(2, 0, 1).reshape(8, 4)


REFERENCES = {
    transposed: lambda t: t.T,
    flattened_and_back: lambda t: t.reshape(8, 4),
    swapped: lambda t: t.T,
    swapped_tuple: lambda t: t.T,
    through_three_axes: lambda t: t.reshape(2, 2, 8).transpose(2, 0, 1).reshape(8, 4),
}


@pytest.mark.parametrize("function", REFERENCES)
def test_rearrangements(function):
    @tw.kernel
    def rearranged(z: Mut[i32, BM, BN], x: Ref[i32, M, N]) -> None:
        z.store(function(x.partition(BN, BM)[0, 0]))

    assert_same(run(rearranged, ((8, 4), i32), (8, 4), MATRIX), REFERENCES[function](MATRIX))


def test_transposition_of_three_axes_reverses_them():
    @tw.kernel
    def reversed_axes(z: Mut[i32, BM, BN, D], x: Ref[i32, M, N, K]) -> None:
        z.store(x.partition(D, BN, BM)[0, 0, 0].T)

    x = np.arange(64, dtype=np.int32).reshape(2, 4, 8)
    assert_same(run(reversed_axes, ((8, 4, 2), i32), (8, 4, 2), x), x.T)


def test_broadcast_to_adds_leading_axes():
    @tw.kernel
    def repeated(z: Mut[i32, BM, BN], row: Ref[i32, N]) -> None:
        z.store(row.partition(BN)[0].broadcast_to(BM, BN))

    assert_same(run(repeated, ((4, 8), i32), (4, 8), ROW), np.broadcast_to(ROW, (4, 8)))


def test_items_are_scalars():
    @tw.kernel
    def items(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        first = x.partition(1)[0].item()
        last = x.partition(1)[N - 1].item()
        z.store(tw.full((B,), first * 10 + last, f32))

    assert (run(items, ((8,), f32), 8, np.array([3, 0, 0, 4], np.float32)) == 34).all()


def test_shapes_are_constants_of_the_kernel():
    @tw.kernel
    def shaped(z: Mut[i32, BM, BN], x: Ref[i32, M, N]) -> None:
        t = x.load_like(z)
        rows, columns = t.shape
        if t.shape == (4, 8) and z.tile == t.shape and t.dtype == z.dtype and len(t) == rows:
            z.store(t + rows * 1000 + columns)

    assert_same(run(shaped, ((4, 8), i32), (4, 8), MATRIX), MATRIX + 4008)


def test_extents_of_tensors_are_numbers():
    @tw.kernel
    def extents(z: Mut[i32, B], x: Ref[i32, M, N]) -> None:
        assert_first = x.shape[0] * 100 + x.shape[-1] * 10 + z.shape[0] + (M - N)
        z.store(tw.full((B,), assert_first, i32))

    assert (run(extents, ((6,), i32), 4, MATRIX) == 400 + 80 + 6 - 4).all()
