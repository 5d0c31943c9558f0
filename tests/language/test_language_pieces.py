"""Pieces of any extent, whole axes, and the logical grid that the blocks form."""

import math

import numpy as np
import pytest
from running import assert_same, run

import tilewright as tw
from tilewright import All, Const, Mapped, Mut, Ref, f32, i32
from tilewright.dims import BM, BN, B, D, H, K, M, N

# --- whole axes -----------------------------------------------------------------------------------


@tw.kernel(deny_checks=True)
def softmax(z: Mut[f32, 1, All], x: Ref[f32, M, N], *, BN: Const[int]) -> None:
    """A row of any length, in three passes over its parts."""
    i, _ = z.index
    xs, parts = x.partition(1, BN, padding=-float("inf")), z.partition(1, BN)
    top = tw.full((1, 1), -float("inf"), f32)
    for j in range(parts.num_tiles(1)):
        top = tw.maximum(top, tw.max(xs[i, j], axis=1, keepdims=True))
    total = tw.zeros((1, 1), f32)
    for j in range(parts.num_tiles(1)):
        parts.store(tw.exp(xs[i, j] - top), 0, j)
        total = total + tw.sum(parts[0, j], axis=1, keepdims=True)
    for j in range(parts.num_tiles(1)):
        parts.store(parts[0, j] / total, 0, j)


@pytest.mark.parametrize("shape", [(1, 1), (3, 17), (2, 64), (5, 0), (0, 5), (4, 61)], ids=str)
@pytest.mark.parametrize("part", [1, 16, 64])
def test_a_whole_axis_is_written_in_parts_of_any_power_of_two(shape, part):
    x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    z = tw.full(shape, 77, f32)
    with tw.race_check():
        softmax(z.partition(1, None), tw.from_numpy(x), BN=part).sync()
    if not x.size:
        return
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(z.numpy(), e / e.sum(1, keepdims=True), rtol=1e-6)


def test_the_tile_of_a_whole_axis_is_its_extent():
    @tw.kernel(deny_checks=True)
    def extents(z: Mut[i32, BM, All, 2], grid: Mut[i32, 1]) -> None:
        rows, columns, pair = z.tile
        tw.static_assert(rows == BM and pair == 2)
        total = columns * 100 + z.shape[1] * 10 + z.index[1]
        grid.store(tw.full((1,), total + tw.block_id(1) + tw.num_blocks(1), i32))

    z, grid = tw.zeros((6, 5, 2), i32), tw.zeros((3,), i32)
    extents(z.partition(2, None, 2), grid.partition(1)).sync()
    assert_same(grid.numpy(), np.full(3, 5 * 110 + 1, np.int32))


def test_every_axis_may_be_whole():
    @tw.kernel(deny_checks=True)
    def iota(z: Mut[i32, All, All]) -> None:
        p = z.partition(2, 4)
        for i in range(p.num_tiles(0)):
            for j in range(p.num_tiles(1)):
                p.store(tw.full((2, 4), i * 10 + j, i32), i, j)

    z = tw.full((5, 9), 77, i32)
    with tw.race_check():
        iota(z.partition(None, None)).sync()
    rows, columns = np.ogrid[:5, :9]
    assert_same(z.numpy(), (rows // 2 * 10 + columns // 4).astype(np.int32))


def test_a_part_beyond_the_edge_is_out_of_bounds():
    @tw.kernel
    def at(z: Mut[i32, All], where: Ref[i32, 1]) -> None:
        z.partition(4).store(tw.full((4,), 1, i32), where.partition(1)[0].item())

    z = tw.zeros((10,), i32)
    at(z.partition(None), tw.from_numpy(np.array([2], np.int32))).sync()
    assert_same(z.numpy(), np.array([0] * 8 + [1] * 2, np.int32))
    with pytest.raises(
        tw.OutOfBoundsError, match="index 3 is outside axis 0 of this block's piece"
    ):
        at(z.partition(None), tw.from_numpy(np.array([3], np.int32))).sync()


# --- pieces that no tile has the shape of ---------------------------------------------------------


@pytest.mark.parametrize(("piece", "part"), [(2560, 512), (7, 1), (96, 32), (12, 4)])
@pytest.mark.parametrize("pieces", [0.01, 1, 2.3, 3])
def test_pieces_of_any_extent(piece, part, pieces):
    @tw.kernel(deny_checks=True)
    def number(z: Mut[i32, B], *, S: Const[int]) -> None:
        parts = z.partition(S)
        for j in range(parts.num_tiles(0)):
            parts.store(tw.arange(S, dtype=i32) + (z.index[0] * B + j * S), j)

    length = math.ceil(piece * pieces)
    got = run(number, ((length,), i32), piece, S=part)
    assert_same(got, np.arange(length, dtype=np.int32))


# --- ranks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(3, 2, 1, 3), (3, 2, 1, 2, 3), (2, 1, 3, 2, 2, 5)], ids=str)
def test_outputs_of_higher_ranks(shape):
    @tw.kernel(deny_checks=True)
    def rank4(z: Mut[i32, 1, 2, 1, 2]) -> None:
        a, b, c, d = z.index
        z.store(tw.full((1, 2, 1, 2), ((a * 10 + b) * 10 + c) * 10 + d, i32))

    @tw.kernel(deny_checks=True)
    def rank5(z: Mut[i32, 1, 2, 1, 2, 1]) -> None:
        a, b, c, d, e = z.index
        z.store(tw.full((1, 2, 1, 2, 1), (((a * 10 + b) * 10 + c) * 10 + d) * 10 + e, i32))

    @tw.kernel(deny_checks=True)
    def rank6(z: Mut[i32, 1, 2, 1, 2, 1, 4]) -> None:
        a, b, c, d, e, f = z.index
        number = ((((a * 10 + b) * 10 + c) * 10 + d) * 10 + e) * 10 + f
        z.store(tw.full((1, 2, 1, 2, 1, 4), number, i32))

    kernel = {4: rank4, 5: rank5, 6: rank6}[len(shape)]
    tile = (1, 2, 1, 2, 1, 4)[: len(shape)]
    got = run(kernel, (shape, i32), tile)
    wanted = np.zeros(shape, np.int32)
    for place in np.ndindex(shape):
        for at, extent in zip(place, tile, strict=True):
            wanted[place] = wanted[place] * 10 + at // extent
    assert_same(got, wanted)


def test_all_six_axes_number_the_blocks():
    @tw.kernel(deny_checks=True)
    def identities(z: Mut[i32, 1, 1, 1, 1, 1, 1]) -> None:
        number = tw.block_id(0) * tw.num_blocks(1) + tw.block_id(1)
        number = number * tw.num_blocks(2) + tw.block_id(2)
        number = number * tw.num_blocks(3) + tw.block_id(3)
        number = number * tw.num_blocks(4) + tw.block_id(4)
        number = number * tw.num_blocks(5) + tw.block_id(5)
        z.store(tw.full((1, 1, 1, 1, 1, 1), number, i32))

    shape = (2, 3, 1, 2, 3, 2)
    assert_same(
        run(identities, (shape, i32), (1,) * 6), np.arange(72, dtype=np.int32).reshape(shape)
    )


# --- the order of the grid ------------------------------------------------------------------------


@tw.kernel(deny_checks=True)
def places(z: Mut[i32, BM, BN], axes: Mut[i32, 1, 1]) -> None:
    """What an output calls its place, and what the grid does."""
    z.store(tw.full((BM, BN), z.index[0] * 10 + z.index[1], i32))
    blocks = (tw.block_id(0) * 10 + tw.block_id(1)) * 100 + tw.num_blocks(0) * 10 + tw.num_blocks(1)
    axes.store(tw.full((1, 1), blocks, i32))


def test_the_order_of_a_partition_permutes_the_grid():
    z, axes = tw.zeros((6, 4), i32), tw.zeros((4, 3), i32)
    with tw.race_check():
        places(z.partition(2, 1, order=(1, 0)), axes.partition(1, 1)).sync()
    rows, columns = np.ogrid[:6, :4]
    assert_same(z.numpy(), (rows // 2 * 10 + columns).astype(np.int32))
    first, second = np.ogrid[:4, :3]
    assert_same(axes.numpy(), ((first * 10 + second) * 100 + 43).astype(np.int32))


def test_outputs_may_have_orders_of_their_own():
    z, axes = tw.zeros((3, 2), i32), tw.zeros((3, 2), i32)
    with tw.race_check():
        places(z.partition(1, 1, order=(1, 0)), axes.partition(1, 1, order=(1, 0))).sync()
    rows, columns = np.ogrid[:3, :2]
    assert_same(z.numpy(), (rows * 10 + columns).astype(np.int32))
    assert_same(axes.numpy(), ((columns * 10 + rows) * 100 + 23).astype(np.int32))


# --- prefixes and grids that the call gives -------------------------------------------------------


@tw.kernel(deny_checks=True)
def prefix(z: Mut[i32, BM, BN], count: Mut[i32, 1]) -> None:
    z.store(z.load() + tw.block_id(0) + 1)
    count.store(tw.full((1,), tw.num_blocks(0), i32))


def test_a_prefix_keeps_what_lies_beyond():
    z, count = tw.zeros((7, 4), i32), tw.zeros((2,), i32)
    with tw.race_check():
        prefix(z.partition(2, 2, prefix=True), count.partition(1)).sync()
    wanted = np.zeros((7, 4), np.int32)
    wanted[:4, :2] = np.array([1, 1, 2, 2])[:, None]
    assert_same(z.numpy(), wanted)


def test_a_grid_that_the_call_gives():
    @tw.kernel(deny_checks=True)
    def fill(z: Mut[i32, 2, 2]) -> None:
        z.store(tw.full((2, 2), tw.block_id(0) * tw.num_blocks(1) + tw.block_id(1) + 1, i32))

    z = tw.zeros((7, 6), i32)
    with tw.race_check():
        fill.grid(2, 3)(z.partition(2, 2, prefix=True)).sync()
    rows, columns = np.ogrid[:7, :6]
    wanted = np.where(rows < 4, rows // 2 * 3 + columns // 2 + 1, 0)
    assert_same(z.numpy(), wanted.astype(np.int32))
    fill.grid(0, 3)(z.partition(2, 2, prefix=True)).sync()
    assert_same(z.numpy(), wanted.astype(np.int32))


def test_a_given_grid_reads_what_the_launch_says_is_there():
    @tw.kernel(deny_checks=True)
    def copy(z: Mut[i32, B], x: Ref[i32, N]) -> None:
        z.store(x.partition(B)[tw.block_id(0)] + x.partition(B)[tw.block_id(0) * 2])

    x = tw.from_numpy(np.arange(12, dtype=np.int32))
    z = tw.zeros((8,), i32)
    copy.grid(2)(z.partition(4, prefix=True), x).sync()
    assert_same(
        z.numpy(), np.concatenate([np.arange(4) * 2, 12 + np.arange(4) * 2]).astype(np.int32)
    )
    with pytest.raises(tw.LaunchError, match="goes from 0 to 4, but the axis has 3 tiles"):
        copy.grid(3)(tw.zeros((12,), i32).partition(4, prefix=True), x)
    with pytest.raises(tw.LaunchError, match="goes from 0 to 3, but the axis has 3 tiles"):
        copy.grid(4)(tw.zeros((16,), i32).partition(4, prefix=True), x)


def test_walks_take_as_many_blocks_as_there_are():
    @tw.kernel
    def both(z: Mut[i32, B], w: Mapped[i32, B]) -> None:
        for at in w.indices():
            w.store(tw.full((B,), tw.block_id(0), i32), at)
        z.store(tw.full((B,), tw.num_blocks(0), i32))

    z, w = tw.zeros((12,), i32), tw.zeros((20,), i32)
    for walked in (w.partition(4).persistent(), w.partition(4).persistent(blocks=3)):
        with tw.race_check():
            both(z.partition(4), walked).sync()
        assert_same(w.numpy(), np.repeat(np.array([0, 1, 2, 0, 1], np.int32), 4))
    few = tw.zeros((4,), i32)
    both(z.partition(4), few.partition(4).persistent()).sync()
    assert_same(few.numpy(), np.zeros(4, np.int32))


def test_an_output_that_no_block_reaches_keeps_its_contents():
    @tw.kernel
    def both(z: Mut[i32, B], w: Mapped[i32, B]) -> None:
        z.store(tw.zeros((B,), i32))
        for at in w.indices():
            w.store(tw.zeros((B,), i32), at)

    w = tw.full((8,), 7, i32)
    both(tw.zeros((0,), i32).partition(4), w.partition(4).persistent()).sync()
    assert_same(w.numpy(), np.full(8, 7, np.int32))


# --- places that a launch can vouch for -----------------------------------------------------------


def test_block_ids_index_inputs_and_own_parts():
    @tw.kernel(deny_checks=True)
    def mixed(z: Mut[f32, BM, 8], x: Ref[f32, M, K], heads: Ref[f32, H, D]) -> None:
        i, j = tw.block_id(0), tw.block_id(1)
        xs, parts = x.partition(BM, 4), z.partition(BM, 4)
        for c in range(parts.num_tiles(1)):
            parts.store(xs[i, j * 2 + c] + heads.partition(1, 1)[i // 2, 0], 0, c)

    x = np.arange(8 * 16, dtype=np.float32).reshape(8, 16)
    heads = np.array([[100.0], [200.0]], np.float32)
    got = run(mixed, ((8, 16), f32), (2, 8), x, heads)
    assert_same(got, (x + np.repeat(heads, 4, 0)).astype(np.float32))
    with pytest.raises(tw.LaunchError, match="`x`, axis 1"):
        run(mixed, ((8, 16), f32), (2, 8), x[:, :12].copy(), heads)
