"""Walks that are allowed: next to each refusal of a range, of a partner and of a way to a walk."""

import numpy as np
import pytest
from neighbours import X, launched, neighbour_of

import tilewright as tw
from tilewright import Mapped, Mut, Ref, f32, i32
from tilewright.dims import BM, BN, B, N


def walked(*shape, tile, blocks=3, group=1, dtype=f32):
    """An output full of -1, cut to be walked."""
    return tw.full(shape, -1, dtype).partition(*tile).persistent(blocks=blocks, group=group)


def ones(n, first, last):
    """-1, and 1 in the tiles of 16 from one to another."""
    wanted = np.full(n, -1, np.float32)
    wanted[16 * first : 16 * last] = 1
    return wanted


@neighbour_of(
    "ownership/range_from_a_block_id",
    "ownership/range_from_a_load_at_another_place_in_every_block",
    "ownership/range_that_is_a_number",
)
def test_a_range_from_dims_scalars_and_loads_at_places_that_all_blocks_share():
    @tw.kernel(deny_checks=True)
    def fill(z: Mapped[f32, B], starts: Ref[i32, N], which: i32) -> None:
        tw.require(which >= 0)
        tw.require(which < N)
        start = starts.partition(1)[which].item()
        for at in z.indices_within((start + 1, N * 4 // tw.num_blocks(0))):
            z.store(tw.ones((B,), f32), at)

    z = walked(256, tile=(16,))
    fill(z, tw.from_numpy(np.array([9, 1, 7], np.int32)), 1).sync()
    np.testing.assert_array_equal(z.tensor.numpy(), ones(256, 2, 4))


@neighbour_of("ownership/range_from_a_piece", "ownership/range_from_an_output")
def test_a_piece_and_an_output_choose_inside_the_walk():
    @tw.kernel(deny_checks=True)
    def fill(y: Mut[i32, 1], z: Mapped[i32, B]) -> None:
        (i,) = y.index
        n = y.load().item()
        for at in z.indices_within((1, 14)):
            if at[0] > n:
                z.store(tw.full((B,), i, i32), at)

    y, z = tw.zeros((3,), i32), tw.full((256,), -1, i32)
    fill(y.partition(1), z.partition(16).persistent()).sync()
    tiles = np.arange(256) // 16
    inside = (tiles >= 1) & (tiles < 14)
    np.testing.assert_array_equal(z.numpy(), np.where(inside, (tiles - 1) % 3, -1))


@neighbour_of("ownership/range_by_an_if_that_blocks_take_differently")
def test_a_range_chosen_by_an_if_that_all_blocks_take_alike():
    @tw.kernel(deny_checks=True)
    def fill(z: Mapped[f32, B], n: i32) -> None:
        start = 0
        if n > 5:
            start = n - 5
        total = 0
        for turn in range(n):
            total += turn
        for at in z.indices_within((start, total if n < 4 else n)):
            z.store(tw.ones((B,), f32), at)

    for n, first, last in ((3, 0, 3), (8, 3, 8), (0, 0, 0)):
        got = launched(fill, n, tile=(16,), walked=True)
        wanted = ones(256, first, last)
        np.testing.assert_array_equal(got, np.where(wanted == 1, 1, 99))


@neighbour_of(
    "ownership/range_from_an_index_of_another_walk", "ownership/third_output_of_a_shared_walk"
)
def test_a_walk_inside_the_walk_of_another_output():
    @tw.kernel(deny_checks=True)
    def fill(y: Mapped[f32, B], z: Mapped[f32, B], n: i32) -> None:
        for place in y.indices():
            y.store(tw.ones((B,), f32), place)
            for at in z.indices_within((n, n + 2)):
                z.store(tw.maximum(z.load(at), 0.0) + 1, at)

    y, z = walked(96, tile=(16,)), walked(96, tile=(16,))
    fill(y, z, 3).sync()
    assert (y.tensor.numpy() == 1).all()
    np.testing.assert_array_equal(z.tensor.numpy(), np.where(ones(96, 3, 5) == 1, 2, -1))


@neighbour_of(
    "ownership/range_that_an_outer_loop_changes", "ownership/range_that_an_outer_loop_carries"
)
def test_a_range_that_stays_the_same_in_an_outer_loop():
    @tw.kernel(deny_checks=True)
    def fill(z: Mapped[f32, B], lengths: Ref[i32, N]) -> None:
        n = 2
        for turn in range(4):
            last = lengths.partition(1)[0].item() + n  # the same number at every turn
            for at in z.indices_within((1, last)):
                if at[0] > turn:
                    z.store(z.load(at) + 1, at)

    z = walked(256, tile=(16,))
    fill(z, tw.from_numpy(np.array([4], np.int32))).sync()
    tiles = np.arange(256) // 16
    inside = (tiles >= 1) & (tiles < 6)
    np.testing.assert_array_equal(z.tensor.numpy(), np.where(inside, np.minimum(tiles, 4) - 1, -1))


@neighbour_of("ownership/two_ranges_of_one_output", "ownership/a_range_and_all_of_one_output")
def test_one_range_walked_again_and_shared():
    @tw.kernel(deny_checks=True)
    def fill(y: Mapped[f32, B], z: Mapped[f32, B], n: i32) -> None:
        for at in z.indices_within((0, n + 1)):
            z.store(tw.ones((B,), f32), at)
        for at in y.indices_with(z, within=((0, 1 + n - 0 * 3),)):
            y.store(z.load(at), at)

    with pytest.raises(tw.CompileError, match="over two different ranges"):
        fill(walked(96, tile=(16,)), walked(96, tile=(16,)), 3)  # equal, but not seen to be

    @tw.kernel(deny_checks=True)
    def fill_twice(y: Mapped[f32, B], z: Mapped[f32, B], n: i32) -> None:
        for at in z.indices_within((0, n + 1)):
            z.store(tw.ones((B,), f32), at)
        for at in y.indices_with(z, within=((0, n + 1),)):
            y.store(z.load(at), at)

    y, z = walked(96, tile=(16,)), walked(96, tile=(16,))
    fill_twice(y, z, 3).sync()
    np.testing.assert_array_equal(y.tensor.numpy(), ones(96, 0, 4))
    np.testing.assert_array_equal(z.tensor.numpy(), ones(96, 0, 4))


@neighbour_of(
    "ownership/walk_under_an_if_that_blocks_take_differently",
    "ownership/walk_in_a_loop_that_differs_between_blocks",
)
def test_a_condition_around_a_walk_that_all_blocks_take_alike():
    @tw.kernel(deny_checks=True)
    def fill(z: Mapped[f32, B], n: i32) -> None:
        if n > 0:
            for turn in range(n):
                for at in z.indices():
                    if tw.block_id(0) >= 0:
                        z.store(z.load(at) + 1 + 0 * turn.astype(f32), at)

    z = walked(96, tile=(16,))
    fill(z, 2).sync()
    assert (z.tensor.numpy() == 1).all()


@neighbour_of(
    "ownership/walk_behind_an_early_return", "ownership/walk_behind_a_continue",
    "ownership/walk_before_a_break", "ownership/walk_in_a_function_that_some_blocks_left",
    "ownership/range_from_a_loop_that_blocks_leave_differently",
    "ownership/range_from_the_turns_of_a_walk",
)  # fmt: skip
@pytest.mark.parametrize("n", [0, 1, 3, 40])
def test_walks_in_code_that_all_blocks_leave_alike(n):
    @tw.kernel(deny_checks=True)
    def fill(z: Mapped[f32, B], n: i32) -> None:
        if n == 0:
            return
        start = 0
        while start * start < n:
            start += 1
        for turn in range(9):
            if turn == 1:
                continue
            for at in z.indices_within((start, 16)):
                if at[0] == 9:
                    continue
                z.store(z.load(at) + 1, at)
                if tw.block_id(0) + at[0] > 14:
                    break
            if turn == 3:
                break

    z = walked(256, tile=(16,), blocks=1)
    fill(z, n).sync()
    tiles = np.arange(256) // 16
    inside = (tiles >= np.ceil(np.sqrt(n))) & (tiles != 9) & (n > 0)
    np.testing.assert_array_equal(z.tensor.numpy(), np.where(inside, 2, -1))


@neighbour_of(
    "ownership/partners_of_different_tiles", "ownership/partners_of_different_groups",
    "ownership/shared_walk_with_a_piece", "ownership/shared_walk_with_itself",
    "ownership/shared_walk_with_nobody", "ownership/ranges_that_are_no_tuple",
)  # fmt: skip
def test_outputs_that_are_cut_alike_share_a_walk():
    @tw.kernel(deny_checks=True)
    def fill(a: Mapped[f32, BM, BN], b: Mapped[i32, BM, BN], c: Mapped[f32, BM, BN]) -> None:
        for at in a.indices_with(b, c, within=(None, (1, 3))):
            i, j = at
            a.store(tw.ones((BM, BN), f32), at)
            b.store(tw.full((BM, BN), 10 * i + j, i32), at)
            c.piece(at).store(a.load(at) + 1)

    a, b, c = (walked(5, 8, tile=(2, 2), group=(2, 2), dtype=dtype) for dtype in (f32, i32, f32))
    fill(a, b, c).sync()
    rows, columns = np.ogrid[:5, :8]
    inside = (columns // 2 >= 1) & (columns // 2 < 3) & (rows >= 0)
    np.testing.assert_array_equal(a.tensor.numpy(), np.where(inside, 1, -1))
    np.testing.assert_array_equal(
        b.tensor.numpy(), np.where(inside, rows // 2 * 10 + columns // 2, -1)
    )
    np.testing.assert_array_equal(c.tensor.numpy(), np.where(inside, 2, -1))
    # Another shape with as many tiles is a grid like it; one with more is not.
    fill(a, b, walked(6, 7, tile=(2, 2), group=(2, 2))).sync()
    with pytest.raises(tw.LaunchError, match=r"requires `ceil\(a\.shape\[0\] / 2\) == ceil\(c"):
        fill(a, b, walked(7, 8, tile=(2, 2), group=(2, 2)))


@neighbour_of("ownership/range_of_floats", "ownership/too_few_ranges")
@pytest.mark.parametrize("dtype", [tw.i8, tw.u8, tw.i16, tw.u16, tw.i32, tw.u32, tw.i64, tw.u64])
def test_a_range_of_any_integers(dtype):
    @tw.kernel(deny_checks=True)
    def fill(z: Mapped[f32, BM, BN], ends: Ref[dtype, N]) -> None:
        start, stop = ends.partition(1)[0].item(), ends.partition(1)[1].item()
        for at in z.indices_within(None, (start, stop)):
            z.store(tw.ones((BM, BN), f32), at)

    element = np.dtype(f"{'' if dtype.signed else 'u'}int{dtype.element.bits}")
    low, high = np.iinfo(element).min, np.iinfo(element).max
    for start, stop in ((1, 3), (low, high), (high, low), (2, high), (low, 2), (3, 3), (3, 1)):
        z = walked(6, 8, tile=(2, 2))
        fill(z, tw.from_numpy(np.array([start, stop], element))).sync()
        columns = np.arange(8)[None, :] // 2
        wanted = np.where((columns >= start) & (columns < stop), 1, -1)
        np.testing.assert_array_equal(z.tensor.numpy(), np.broadcast_to(wanted, (6, 8)))


def keep(z: Mapped[f32, B], at: tw.Index, tile: tw.Tile[f32]) -> tw.Index:
    """Stores through a name of its own, and gives the index back."""
    place = at
    z.store(tile, place)
    return place


@neighbour_of(
    "ownership/piece_of_another_output", "ownership/piece_kept_past_its_loop",
    "ownership/index_from_a_function_kept_past_its_loop",
)  # fmt: skip
def test_an_index_in_helpers_and_pieces():
    @tw.kernel(deny_checks=True)
    def scale(z: Mapped[f32, B], x: Ref[f32, N]) -> None:
        for at in z.indices():
            place = keep(z, at, x.partition(B)[at])
            piece = z.piece(place)
            parts = piece.partition(4)
            for i in range(parts.num_tiles(0)):
                parts.store(parts[i] * 2, i)
            piece.store(piece.load() + x.load_like(piece))

    np.testing.assert_array_equal(launched(scale, X, tile=(32,), walked=True), X * 3)


@neighbour_of("ownership/partners_of_different_orders")
def test_partners_of_the_same_order_share_a_walk():
    @tw.kernel(deny_checks=True)
    def fill(a: Mapped[f32, BM, BN], b: Mapped[f32, BM, BN]) -> None:
        for at in a.indices_with(b):
            a.store(tw.ones((BM, BN), f32), at)
            b.store(tw.zeros((BM, BN), f32), at)

    a, b = (tw.full((64, 32), -1, f32) for _ in range(2))
    fill(*(z.partition(16, 16, order=(1, 0)).persistent(blocks=3) for z in (a, b))).sync()
    assert (a.numpy() == 1).all()
    assert (b.numpy() == 0).all()
