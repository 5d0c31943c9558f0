"""Outputs: pieces and their parts, several outputs of one grid, walks and their orders."""

import itertools

import numpy as np
import pytest
from running import assert_same, run

import tilewright as tw
from tilewright import Const, Mapped, Mut, Ref, f32, i32
from tilewright.dims import BM, BN, B, D, K, M, N

# --- pieces ---------------------------------------------------------------------------------------


def test_a_piece_is_read_and_written():
    @tw.kernel
    def increment(z: Mut[i32, B]) -> None:
        z.store(z.load() + 1)
        z.store(z.load() * 2)

    z = tw.from_numpy(np.arange(10, dtype=np.int32))
    increment(z.partition(4)).sync()
    assert_same(z.numpy(), (np.arange(10, dtype=np.int32) + 1) * 2)


def test_what_hangs_over_reads_as_zero_and_is_not_written():
    @tw.kernel
    def totals(z: Mut[i32, B], sums: Mut[i32, 1]) -> None:
        t = z.load()
        sums.store(tw.sum(t + 1, keepdims=True))
        z.store(t + 100)

    z, sums = tw.from_numpy(np.arange(6, dtype=np.int32)), tw.zeros((2,), i32)
    with pytest.warns(tw.PaddingWarning, match="the 1 that its padding has become takes part"):
        totals(z.partition(4), sums.partition(1)).sync()
    assert_same(sums.numpy(), np.array([10, 4 + 5 + 4], np.int32))
    assert_same(z.numpy(), np.arange(6, dtype=np.int32) + 100)


@tw.kernel(deny_checks=True)
def numbered(z: Mut[i32, BM, BN], *, SM: Const[int], SN: Const[int]) -> None:
    """Write the number of the block, of the part, and count the parts that begin inside."""
    parts = z.partition(SM, SN)
    rows, columns = parts.num_tiles(0), parts.num_tiles(1)
    i, j = z.index
    block = i * tw.num_blocks(1) + j
    for r in range(rows):
        for c in range(columns):
            number = block * 10000 + r * 1000 + c * 100 + rows * 10 + columns
            parts.store(tw.full((SM, SN), number, i32), r, c)
            parts.store(parts[r, c] + 0, r, c)


@pytest.mark.parametrize("shape", [(12, 12), (13, 7), (1, 5), (6, 11)], ids=str)
@pytest.mark.parametrize("piece", [(6, 4), (12, 2), (2, 6)], ids=str)
def test_parts_of_ragged_pieces_that_are_no_powers_of_two(shape, piece):
    sub = tuple(extent & -extent for extent in piece)
    got = run(numbered, (shape, i32), piece, SM=sub[0], SN=sub[1])
    wanted = np.full(shape, -1, np.int32)
    columns = -(-shape[1] // piece[1])
    for y, x in itertools.product(*map(range, shape)):
        i, j = y // piece[0], x // piece[1]
        counts = [
            -(-min(piece[a], shape[a] - at * piece[a]) // sub[a]) for a, at in enumerate((i, j))
        ]
        r, c = y % piece[0] // sub[0], x % piece[1] // sub[1]
        wanted[y, x] = (i * columns + j) * 10000 + r * 1000 + c * 100 + counts[0] * 10 + counts[1]
    assert_same(got, wanted)


def test_a_piece_of_any_extent_is_summed_in_parts():
    @tw.kernel(deny_checks=True)
    def row_sums(z: Mut[f32, 1, BN], x: Ref[f32, M, N]) -> None:
        i, j = z.index
        xs, parts = x.partition(1, 4), z.partition(1, 4)
        for c in range(parts.num_tiles(1)):
            place = j * (BN // 4) + c
            if place < xs.num_tiles(1):
                parts.store(xs[i, place] * 2, 0, c)

    x = np.arange(2 * 23, dtype=np.float32).reshape(2, 23)
    assert_same(run(row_sums, (x.shape, f32), (1, 12), x), x * 2)


def test_rank_four():
    @tw.kernel
    def flipped(z: Mut[i32, BM, BN, D, 2], x: Ref[i32, M, N, K, 2]) -> None:
        a, b, c, d = z.index
        z.store(x.partition(BM, BN, D, 2)[a, b, c, d] + ((a * 10 + b) * 10 + c) * 10 + d)

    x = np.arange(3 * 2 * 5 * 2, dtype=np.int32).reshape(3, 2, 5, 2)
    got = run(flipped, (x.shape, i32), (2, 1, 4, 2), x)
    a, b, c, _ = np.ogrid[:3, :2, :5, :2]
    assert_same(got, (x + ((a // 2 * 10 + b) * 10 + c // 4) * 10).astype(np.int32))


# --- several outputs ------------------------------------------------------------------------------


def test_two_outputs_of_one_grid():
    @tw.kernel
    def both(a: Mut[f32, B], b: Mut[i32, K], x: Ref[f32, N]) -> None:
        t = x.load_like(a)
        a.store(t * 2)
        b.store(tw.full((K,), b.index[0], i32))

    x = np.arange(10, dtype=np.float32)
    a, b = tw.zeros((10,), f32), tw.zeros((5,), i32)
    both(a.partition(4), b.partition(2), tw.from_numpy(x)).sync()
    assert_same(a.numpy(), x * 2)
    assert_same(b.numpy(), np.array([0, 0, 1, 1, 2], np.int32))


def test_an_output_of_lower_rank_for_each_row():
    @tw.kernel
    def rows(z: Mut[f32, BM, BN], totals: Mut[f32, BM], x: Ref[f32, M, N]) -> None:
        t = x.load_like(z)
        totals.store(tw.sum(t, axis=1))
        z.store(t / totals.load()[:, None])

    x = np.arange(1, 25, dtype=np.float32).reshape(3, 8)
    z, totals = tw.zeros((3, 8), f32), tw.zeros((3,), f32)
    rows(z.partition(2, 8), totals.partition(2), tw.from_numpy(x)).sync()
    assert_same(totals.numpy(), x.sum(1))
    assert_same(z.numpy(), x / x.sum(1, keepdims=True))


def test_a_mut_beside_a_mapped():
    @tw.kernel
    def mixed(z: Mut[i32, B], w: Mapped[i32, B], x: Ref[i32, N]) -> None:
        visits = 0
        for at in w.indices():
            w.store(x.partition(B)[at] + 1, at)
            visits += 1
        z.store(tw.full((B,), visits, i32))

    x = np.arange(40, dtype=np.int32)
    z, w = tw.zeros((12,), i32), tw.zeros((40,), i32)
    mixed(z.partition(4), w.partition(4).persistent(), tw.from_numpy(x)).sync()
    assert_same(w.numpy(), x + 1)
    assert_same(z.numpy(), np.repeat(np.array([4, 3, 3], np.int32), 4))


# --- walks ----------------------------------------------------------------------------------------


@tw.kernel(deny_checks=True)
def visited(z: Mapped[i32, BM, BN]) -> None:
    """Add one to each tile, and its place: a tile that is visited twice or not at all shows."""
    order = 0
    for at in z.indices():
        i, j = at
        z.store(z.load(at) + i * 10000 + j * 100 + 1, at)
        order += at[0]


@pytest.mark.parametrize("shape", [(8, 8), (7, 5), (1, 9), (9, 1), (3, 14)], ids=str)
@pytest.mark.parametrize("blocks", [1, 3, 64])
@pytest.mark.parametrize("group", [1, (2, 1), (3, 1), (8, 1)], ids=str)
def test_every_tile_is_visited_once_in_every_order(shape, blocks, group):
    z = tw.full(shape, 7_000_000, i32)
    visited(z.partition(2, 2).persistent(blocks=blocks, group=group)).sync()
    y, x = np.ogrid[: shape[0], : shape[1]]
    assert_same(z.numpy(), (7_000_001 + y // 2 * 10000 + x // 2 * 100).astype(np.int32))


@tw.kernel
def ordered(z: Mapped[i32, BM, BN]) -> None:
    turn = 0
    for at in z.indices():
        z.store(tw.full((BM, BN), turn, i32), at)
        turn = turn + 1


def test_groups_finish_one_band_of_rows_before_the_next():
    z = tw.zeros((5, 3), i32)
    ordered(z.partition(1, 1).persistent(blocks=1, group=(2, 1))).sync()
    wanted = [[0, 2, 4], [1, 3, 5], [6, 8, 10], [7, 9, 11], [12, 13, 14]]
    np.testing.assert_array_equal(z.numpy(), wanted)
    ordered(z.partition(1, 1).persistent(blocks=1)).sync()
    np.testing.assert_array_equal(z.numpy(), np.arange(15).reshape(5, 3))


@pytest.mark.parametrize("rank", [1, 3])
def test_walks_of_other_ranks(rank):
    @tw.kernel
    def one(z: Mapped[i32, B], x: Ref[i32, N]) -> None:
        for at in z.indices():
            z.store(x.partition(B)[at] * 3, at)

    @tw.kernel
    def three(z: Mapped[i32, BM, BN, D], x: Ref[i32, M, N, K]) -> None:
        xs = x.partition(BM, BN, D)
        for at in z.indices():
            i, j, k = at
            z.store(xs[i, j, k] * 3, at)

    shape = (17,) if rank == 1 else (3, 5, 6)
    x = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    z = tw.zeros(shape, i32)
    pieces = z.partition(*((4,) if rank == 1 else (2, 2, 4))).persistent(blocks=3)
    (one if rank == 1 else three)(pieces, tw.from_numpy(x)).sync()
    assert_same(z.numpy(), x * 3)


def test_two_walks_of_one_output_visit_the_same_tiles():
    @tw.kernel
    def twice(z: Mapped[i32, B]) -> None:
        for at in z.indices():
            z.store(tw.full((B,), at[0], i32), at)
        for at in z.indices():
            z.store(z.load(at) + 100, at)

    z = tw.zeros((30,), i32)
    twice(z.partition(4).persistent(blocks=3)).sync()
    assert_same(z.numpy(), np.arange(30, dtype=np.int32) // 4 + 100)


def test_two_outputs_walked_one_after_the_other():
    @tw.kernel
    def both(a: Mapped[i32, B], b: Mapped[i32, K], x: Ref[i32, N]) -> None:
        for at in a.indices():
            a.store(x.partition(B)[at] + 1, at)
        for at in b.indices():
            b.store(tw.full((K,), at[0], i32), at)

    x = np.arange(20, dtype=np.int32)
    a, b = tw.zeros((20,), i32), tw.zeros((50,), i32)
    partitions = (a.partition(4).persistent(blocks=2), b.partition(2).persistent(blocks=2))
    both(*partitions, tw.from_numpy(x)).sync()
    assert_same(a.numpy(), x + 1)
    assert_same(b.numpy(), np.arange(50, dtype=np.int32) // 2)


def test_what_a_walk_carries_stays_with_its_block():
    @tw.kernel
    def running(z: Mapped[i32, B], x: Ref[i32, N]) -> None:
        total = tw.zeros((B,), i32)
        for at in z.indices():
            total += x.partition(B)[at]
            z.store(total, at)

    x = np.arange(12, dtype=np.int32)
    z = tw.zeros((12,), i32)
    running(z.partition(2).persistent(blocks=2), tw.from_numpy(x)).sync()
    wanted = np.concatenate([np.cumsum(x.reshape(3, 2, 2), axis=0)], axis=0).reshape(-1)
    assert_same(z.numpy(), wanted.astype(np.int32))
