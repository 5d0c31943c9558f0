"""Outputs cut by offsets: pieces are disjoint and inside, whatever the offsets hold."""

import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tilewright as tw
from tilewright import All, Const, Mapped, Mut, Ref, f32, i8, i32
from tilewright.dims import BM, BN, B, M, N

FAR = 2**31 - 1


def pieces_of(offsets, rows: int, height: int):
    """The definition: segment, piece of it, first row, row behind the last."""
    for s in range(len(offsets) - 1):
        low = min(max(max(map(int, offsets[: s + 1])), 0), rows)
        high = min(max(int(offsets[s + 1]), 0), rows)
        for m, begin in enumerate(range(low, high, height)):
            yield s, m, begin, min(begin + height, high)


def cut(z: tw.Tensor, *tile, segments) -> tw.HostPartition:
    return z.partition(*tile, segments=tw.from_numpy(np.asarray(segments)))


@tw.kernel(deny_checks=True)
def mark(z: Mut[i32, B], seen: Mut[i32, 1, 8]) -> None:
    """Each block signs its rows, and says what it was told about them."""
    s, m = z.index
    begin, end = z.rows
    low, high = z.segment
    z.store(z.load() + tw.block_id(0) + 1)
    row = tw.arange(8, dtype=i32)
    told = tw.where(row == 0, s, tw.where(row == 1, m, tw.where(row == 2, begin, end)))
    told = tw.where(row == 4, low, tw.where(row == 5, high, told))
    seen.store(told[None, :])


def check(offsets, rows: int, height: int, dtype) -> None:
    z = tw.zeros((rows,), i32)
    pieces = cut(z, height, segments=np.array(offsets, dtype))
    seen = tw.zeros((pieces.grid[0], 8), i32)
    with tw.race_check():
        mark(pieces, seen.partition(1, 8)).sync()
    wanted = np.zeros(rows, np.int32)
    owned = list(pieces_of(offsets, rows, height))
    assert len(owned) <= pieces.grid[0]
    for number, (s, m, begin, end) in enumerate(owned):
        assert (wanted[begin:end] == 0).all(), "the definition itself is disjoint"
        wanted[begin:end] = number + 1
        assert seen.numpy()[number, :4].tolist() == [s, m, begin, end]
    np.testing.assert_array_equal(z.numpy(), wanted)
    beyond = seen.numpy()[len(owned) :]
    assert (beyond[:, 2] == beyond[:, 3]).all(), "a block without a piece has no rows"


WIDTHS = st.sampled_from([np.int32, np.int64])
HOSTILE = st.lists(st.integers(-5, 40) | st.sampled_from([-FAR - 1, FAR, 17]), max_size=12)


@settings(max_examples=40)
@given(
    HOSTILE, st.integers(0, 33), st.sampled_from([1, 2, 8]), st.sampled_from([np.int32, np.int64])
)
@example([0, 5, 5, 9, 20], 20, 4, np.int32)
@example([7, 3, -1, 40, 2, 11], 33, 2, np.int64)
@example([FAR, 0, 17], 20, 8, np.int32)
@example([], 9, 2, np.int32)
@example([0], 9, 2, np.int32)
def test_no_two_blocks_share_a_row_and_none_leaves_the_tensor(offsets, rows, height, dtype):
    check(offsets, rows, height, dtype)


@pytest.mark.parametrize("value", [2**40, -(2**40), 2**63 - 1, -(2**63), 2**32 + 3])
def test_wide_offsets_are_clipped_before_they_are_narrowed(value):
    check([0, 3, value, 7, 9], 11, 4, np.int64)


@pytest.mark.parametrize("segments", [63, 64, 65, 200])
def test_more_segments_than_are_looked_at_together(segments):
    lengths = np.random.default_rng(segments).integers(0, 4, segments)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    check(offsets.tolist(), int(offsets[-1]), 2, np.int32)


@pytest.mark.parametrize("wide", [False, True])
def test_rows_of_a_matrix(wide):
    """Columns are cut as ever, by element where they hang over."""

    @tw.kernel(deny_checks=True)
    def scale(z: Mut[f32, BM, BN], x: Ref[f32, M, N]) -> None:
        s, _, j = z.index
        z.store(x.load_like(z) * 2 + (s + j).astype(f32))

    x = np.arange(13 * 7, dtype=np.float32).reshape(13, 7)
    offsets = np.array([1, 4, 4, 12], np.int32)
    room = tw.full((13, 9), -1, f32)
    z = room[:, 1:8] if wide else tw.full((13, 7), -1, f32)
    with tw.race_check():
        scale(cut(z, 4, 4, segments=offsets), tw.from_numpy(x)).sync()
    wanted = np.full((13, 7), -1, np.float32)
    for s, _, begin, end in pieces_of(offsets, 13, 4):
        wanted[begin:end] = x[begin:end] * 2 + s + np.arange(7) // 4
    np.testing.assert_array_equal(z.numpy(), wanted)
    if wide:
        assert (room.numpy()[:, [0, 8]] == -1).all()


@pytest.mark.parametrize("height", [4, 6, 12])
def test_pieces_in_parts(height):
    """A piece of any height and of whole rows, part by part."""

    @tw.kernel(deny_checks=True)
    def number(z: Mut[i32, BM, All], *, H: Const[int]) -> None:
        parts = z.partition(H, 4)
        for i in range(parts.num_tiles(0)):
            for j in range(parts.num_tiles(1)):
                parts.store(parts[i, j] + (z.index[0] * 100 + z.index[1] * 10 + i + 1), i, j)

    offsets = np.array([0, 5, 3, 17, 19], np.int32)
    z = tw.zeros((23, 6), i32)
    with tw.race_check():
        number(cut(z, height, None, segments=offsets), H=2).sync()
    wanted = np.zeros((23, 6), np.int32)
    for s, m, begin, end in pieces_of(offsets, 23, height):
        wanted[begin:end] = (s * 100 + m * 10 + (np.arange(end - begin) // 2) + 1)[:, None]
    np.testing.assert_array_equal(z.numpy(), wanted)


def test_parts_behind_the_last_row_are_masked():
    """Also in blocks without a piece: only the height of a full piece counts for an index."""

    @tw.kernel(deny_checks=True)
    def second(z: Mut[i32, 4], seen: Mut[i32, 1]) -> None:
        parts = z.partition(2)
        parts.store(parts[1] + 1, 1)
        seen.store(tw.full((1,), parts.num_tiles(0), i32))

    z = tw.zeros((8,), i32)
    pieces = cut(z, 4, segments=np.array([0, 4, 5, 8], np.int32))
    seen = tw.zeros(pieces.grid, i32)
    second(pieces, seen.partition(1)).sync()
    assert z.numpy().tolist() == [0, 0, 1, 1, 0, 0, 0, 1]
    assert seen.numpy().tolist() == [2, 1, 2, 0]


def test_outputs_cut_alike_are_written_together():
    @tw.kernel(deny_checks=True)
    def both(a: Mut[i32, B], b: Mut[i32, B]) -> None:
        a.store(tw.full((B,), a.index[0] + 1, i32))
        b.store(tw.full((B,), b.index[1] + 1, i32))

    offsets = tw.from_numpy(np.array([0, 3, 9], np.int32))
    a, b = tw.zeros((9,), i32), tw.zeros((9,), i32)
    both(a.partition(4, segments=offsets), b.partition(4, segments=offsets)).sync()
    assert a.numpy().tolist() == [1] * 3 + [2] * 6
    assert b.numpy().tolist() == [1] * 3 + [1] * 4 + [2] * 2


def test_rows_and_segment_of_a_plain_piece():
    @tw.kernel(deny_checks=True)
    def ends(z: Mut[i32, B, 1], w: Mut[i32, All, 1]) -> None:
        begin, end = z.rows
        low, high = z.segment
        first, last = w.rows
        z.store(tw.full((B, 1), begin * 1000 + end * 100 + high * 10 + low + first - last, i32))

    z, w = tw.zeros((6, 1), i32), tw.zeros((5, 1), i32)
    with pytest.raises(tw.LaunchError, match="the grids must be equal"):
        ends(z.partition(4, 1), w.partition(None, 1))
    ends(z.partition(8, 1), w.partition(None, 1)).sync()
    assert set(z.numpy()[:, 0].tolist()) == {600 + 60 - 5}


# --- what the host refuses ------------------------------------------------------------------------


def refuse(text: str, error=tw.LaunchError):
    return pytest.raises(error, match=re.escape(text))


@tw.kernel
def fill(z: Mut[i32, B]) -> None:
    z.store(tw.ones((B,), i32))


@pytest.mark.parametrize(
    "offsets",
    [np.zeros(3, np.float32), np.zeros((2, 2), np.int32), np.zeros(3, np.uint32), np.int32(3)],
    ids=["f32", "rank", "u32", "scalar"],
)
def test_offsets_are_integers_along_one_axis(offsets):
    with refuse("segments= takes a tensor of i32 or i64 with one axis"):
        cut(tw.zeros((8,), i32), 4, segments=offsets)


@pytest.mark.parametrize("offsets", [[0, 4, 8], 3, "0 4", np.zeros(3, np.int32)], ids=str)
def test_offsets_are_a_tensor(offsets):
    with refuse("segments= takes a tensor of i32 or i64 with one axis"):
        tw.zeros((8,), i32).partition(4, segments=offsets)


def test_segments_number_the_pieces_themselves():
    z, offsets = tw.zeros((8, 8), i32), tw.from_numpy(np.array([0, 8], np.int32))
    for other in ({"prefix": True}, {"order": (1, 0)}):
        with refuse("leave out order= and prefix="):
            z.partition(4, 4, segments=offsets, **other)
    with refuse("give the number of rows of a piece, not None"):
        z.partition(None, 4, segments=offsets)
    with refuse("prefix= and segments= number the blocks"):
        z.partition(4, 4, segments=offsets).persistent()


def test_offsets_are_read_by_the_launch():
    z, offsets = tw.zeros((8,), i32), tw.from_numpy(np.array([0, 8], np.int32))
    writing = fill(offsets.partition(2))
    with refuse("holds z for writing", tw.BorrowError):
        fill(z.partition(4, segments=offsets))
    writing.close()
    reading = fill(z.partition(4, segments=offsets))
    with refuse("holds z.offsets for reading", tw.BorrowError):
        fill(offsets.partition(2))
    reading.close()


def test_an_output_does_not_cut_itself():
    z = tw.zeros((8,), i32)
    with refuse("z.offsets", tw.BorrowError):
        fill(z.partition(4, segments=z))
    with refuse("z.offsets", tw.BorrowError):
        fill(z[:4].partition(4, segments=z[2:6]))


def test_offsets_live_where_the_output_does():
    with tw.device("cpu:1"):
        offsets = tw.from_numpy(np.array([0, 8], np.int32))
    with refuse("`z.offsets` of kernel `fill` lives on cpu:1, but `z` on cpu"):
        fill(tw.zeros((8,), i32).partition(4, segments=offsets))


def test_a_walk_has_no_segments():
    @tw.kernel
    def walk(z: Mapped[i32, B]) -> None:
        for at in z.indices():
            z.store(tw.zeros((B,), i32), at)

    offsets = tw.from_numpy(np.array([0, 8], np.int32))
    with refuse("z.partition(B).persistent(), not a plain partition"):
        walk(tw.zeros((8,), i32).partition(4, segments=offsets))


def test_what_no_segment_covers_is_left_alone():
    z = tw.full((8,), 5, i32)
    fill(cut(z, 4, segments=np.array([2, 3, 3], np.int64))).sync()
    assert z.numpy().tolist() == [5, 5, 1, 5, 5, 5, 5, 5]
    fill(cut(z, 4, segments=np.array([0], np.int64))).sync()
    assert z.numpy().tolist() == [5, 5, 1, 5, 5, 5, 5, 5]


def test_narrow_elements_share_no_byte():
    @tw.kernel
    def bytes_(z: Mut[i8, B]) -> None:
        z.store(tw.full((B,), (z.index[0] + 1).astype(i8), i8))

    z = tw.zeros((9,), i8)
    with tw.race_check():
        bytes_(cut(z, 2, segments=np.array([0, 1, 4, 9], np.int32))).sync()
    assert z.numpy().tolist() == [1, 2, 2, 2, 3, 3, 3, 3, 3]
