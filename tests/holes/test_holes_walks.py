"""Attempts to give one tile to two blocks, or to keep an index for longer than it lasts."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import Accum, Mapped, Mut, Ref, f32, i32
from tilewright.dims import B, N


def walked(tiles=12, blocks=3):
    return tw.zeros((4 * tiles,), f32).partition(4).persistent(blocks=blocks)


def first_block_at(n):
    for k in range(n):
        if tw.block_id(0) == k:
            return k
    return 0


@tw.kernel
def range_of_a_function(z: Mapped[f32, B], n: i32) -> None:
    for at in z.indices_within((first_block_at(n), 8)):
        z.store(tw.ones((B,), f32), at)


@tw.kernel
def range_of_an_expression(z: Mapped[f32, B], n: i32) -> None:
    for at in z.indices_within((n if tw.block_id(0) > 1 else 0, 8)):
        z.store(tw.ones((B,), f32), at)


@tw.kernel
def range_of_a_where(z: Mapped[f32, B], n: i32) -> None:
    for at in z.indices_within((tw.where(tw.block_id(0) > 1, n, 0), 8)):
        z.store(tw.ones((B,), f32), at)


@tw.kernel
def range_of_a_block_id_that_cancels(z: Mapped[f32, B], n: i32) -> None:
    start = tw.block_id(0) - tw.block_id(0)  # equal in truth, but not seen to be
    for at in z.indices_within((start, n)):
        z.store(tw.ones((B,), f32), at)


@tw.kernel
def range_of_a_walk_that_may_have_no_turn(y: Mapped[f32, B], z: Mapped[f32, B], n: i32) -> None:
    start = 0
    for _ in y.indices():
        start = n
    for at in z.indices_within((start, 8)):
        z.store(tw.ones((B,), f32), at)


@tw.kernel
def range_of_own_tiles(y: Mapped[i32, 1], z: Mapped[f32, B]) -> None:
    for place in y.indices():
        start = tw.max(y.load(place))
        for at in z.indices_within((start, 8)):
            z.store(tw.ones((B,), f32), at)


@tw.kernel
def range_that_a_while_loop_counts(z: Mapped[f32, B], n: i32) -> None:
    start = 0
    while start < n:
        for at in z.indices_within((start, 8)):
            z.store(tw.ones((B,), f32), at)
        start += 1


@tw.kernel
def range_kept_in_a_name(z: Mapped[f32, B], n: i32) -> None:
    mine, other = z.indices_within((0, n)), z.indices_within((1, n))
    for at in mine:
        z.store(tw.ones((B,), f32), at)
    for at in other:
        z.store(tw.ones((B,), f32), at)


@tw.kernel
def ranges_of_a_partner(y: Mapped[f32, B], z: Mapped[f32, B], n: i32) -> None:
    for at in y.indices_with(z, within=((0, n),)):
        z.store(tw.ones((B,), f32), at)
    for at in z.indices_with(y, within=((1, n),)):
        z.store(tw.ones((B,), f32), at)


@tw.kernel
def walk_under_two_conditions(z: Mapped[f32, B], n: i32) -> None:
    if n > 3 and tw.block_id(0) > 1:
        for at in z.indices_within((n, 8)):
            z.store(tw.ones((B,), f32), at)


@tw.kernel
def walk_after_a_walk_that_returns(z: Mapped[f32, B]) -> None:
    for at in z.indices():
        if at[0] == 3:
            return
    for at in z.indices():
        z.store(tw.ones((B,), f32), at)


@tw.kernel
def index_in_a_tuple_of_a_loop(z: Mapped[f32, B]) -> None:
    kept = (0, 0)
    for at in z.indices():
        kept = (at, 0)
    z.store(tw.ones((B,), f32), kept[0])


@tw.kernel
def index_of_an_inner_walk_in_a_tuple(z: Mapped[f32, B], n: i32) -> None:
    for at in z.indices():
        kept = (at, 0)
        if n > 2:
            for inner in z.indices():
                kept = (inner, 1)
        z.store(tw.ones((B,), f32), kept[0])


@tw.kernel
def index_chosen_by_statements(z: Mapped[f32, B], n: i32) -> None:
    for at in z.indices():
        for inner in z.indices():
            chosen = at
            if n > 1:
                chosen = inner
            z.store(tw.ones((B,), f32), chosen)


@tw.kernel
def index_of_the_turn_before(z: Mapped[f32, B], n: i32) -> None:
    for turn in range(n):
        if turn > 0:
            z.store(tw.ones((B,), f32), old)  # noqa: F821
        for at in z.indices():
            old = at  # noqa: F841


@tw.kernel
def piece_of_the_turn_before(z: Mapped[f32, B]) -> None:
    piece = None
    for at in z.indices():
        if at[0] > 3:
            piece.store(tw.ones((B,), f32))
        piece = z.piece(at)


@tw.kernel
def parts_of_the_turn_before(z: Mapped[f32, B]) -> None:
    for at in z.indices():
        parts = z.piece(at).partition(2)
    parts.store(tw.ones((2,), f32), 0)


def stored_by(z, tile):
    for at in z.indices():
        z.store(tile, at)
    return at


@tw.kernel
def index_returned_past_its_loop(z: Mapped[f32, B]) -> None:
    z.store(tw.ones((B,), f32), stored_by(z, tw.ones((B,), f32)))


@tw.kernel
def index_of_coordinates(z: Mapped[f32, B], x: Ref[f32, N]) -> None:
    for at in z.indices():
        z.store(tw.ones((B,), f32), at[0])


@tw.kernel
def piece_at_coordinates(z: Mapped[f32, B]) -> None:
    for at in z.indices():
        z.piece((at[0] + 1,)).store(tw.ones((B,), f32))


@tw.kernel
def store_beyond_the_piece(z: Mapped[f32, B]) -> None:
    for at in z.indices():
        z.piece(at).partition(2).store(tw.ones((2,), f32), 2)


@tw.kernel
def walk_of_an_accumulator(c: Accum[f32, N], z: Mapped[f32, B]) -> None:
    for at in z.indices_with(c):
        z.store(tw.ones((B,), f32), at)


@tw.kernel
def walk_of_a_piece(z: Mapped[f32, B]) -> None:
    for at in z.indices():
        for inner in z.piece(at).indices():
            z.store(tw.ones((B,), f32), inner)


@tw.kernel
def range_read_from_a_piece(y: Mut[i32, 1], z: Mapped[f32, B]) -> None:
    for at in z.indices_within((0, y.partition(1)[0].item())):
        z.store(tw.ones((B,), f32), at)


ATTEMPTS = [value for value in list(globals().values()) if isinstance(value, tw.Kernel)]
GIVEN = {"n": lambda: 3, "x": lambda: tw.zeros((8,), f32), "c": lambda: tw.zeros((8,), f32)}


def arguments(kernel):
    for param in kernel.signature.params:
        if param.name in GIVEN:
            yield GIVEN[param.name]()
        elif param.name == "y" and param.dtype is i32:
            cut = tw.zeros((3,), i32).partition(1)
            yield cut if type(param).__name__ == "MutParam" else cut.persistent(blocks=3)
        else:
            yield walked()


@pytest.mark.parametrize("kernel", ATTEMPTS, ids=lambda kernel: kernel.signature.kernel)
def test_refused_before_any_work(kernel):
    with pytest.raises(tw.CompileError):
        kernel(*arguments(kernel))


def test_a_range_of_another_launch_is_a_range_of_its_own():
    """The same kernel with another start deals the tiles out anew, in an order of its own."""

    @tw.kernel(deny_checks=True)
    def add(z: Mapped[f32, B], start: i32, stop: i32) -> None:
        for at in z.indices_within((start, stop)):
            z.store(z.load(at) + 1, at)

    z = walked()
    with tw.race_check():
        for start in range(-1, 13):
            add(z, start, start + 2).submit()
        np.testing.assert_array_equal(z.tensor.numpy(), np.full(48, 2.0))


def test_what_a_walk_writes_is_written_whole_only_if_all_of_it_is_walked():
    """A range leaves tiles as they were: they must have been made before."""

    @tw.kernel(deny_checks=True)
    def part(z: Mapped[f32, B]) -> None:
        for at in z.indices_within((1, 2)):
            z.store(tw.ones((B,), f32), at)

    @tw.kernel(deny_checks=True)
    def skipping(z: Mapped[f32, B]) -> None:
        for at in z.indices():
            if at[0] == 1:
                continue
            z.store(tw.ones((B,), f32), at)

    @tw.kernel(deny_checks=True)
    def stopping(z: Mapped[f32, B], n: i32) -> None:
        if n > 0:
            return
        for at in z.indices():
            z.store(tw.ones((B,), f32), at)

    for kernel, given, wanted in ((part, (), [1]), (skipping, (), [0, 2]), (stopping, (1,), [])):
        z = tw.full((12,), 7, f32)
        kernel(z.partition(4).persistent(blocks=2), *given).sync()
        tiles = np.isin(np.arange(12) // 4, wanted)
        np.testing.assert_array_equal(z.numpy(), np.where(tiles, 1, 7))
