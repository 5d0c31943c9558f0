"""Everything that a kernel holds in 32 bits, with numbers that have no room there.

What is narrowed, and what sees to it that nothing is lost:

| quantity | seen to by |
|---|---|
| step of windows | refused beyond 2**31 - 1; counted without a sum that wraps |
| extent of an output's tile, also of an empty output | refused by the host |
| extent rounded up to a tile | launch check; steps above the largest tile by another formula |
| blocks along the grid's axes, and in all | launch check |
| blocks of a walk, shape of its groups | cut to the number of tiles |
| ends of `indices_within` | compared before they are narrowed to the grid |
| offsets of segments, rows of their pieces | read in their own width, cut to the axis |
| parts of a piece | follow from its tile, which fits |
| ends and step of `range`, past the last turn | 64-bit counter |
| indices of every dtype, also clipped ones | compared in the wider of both widths |
| elements of a gather, distance from the first | 64 bits where 31 do not span the tensor |
| cells of an accumulation | compared in the width of the index |
| literals, constants, lengths, products in the source | `test_holes_narrowing_source` |
"""

import numpy as np
import pytest

import tilewright as tw
from tilewright import (
    Accum,
    CompileError,
    Const,
    LaunchError,
    Mapped,
    Mut,
    OutOfBoundsError,
    Ref,
    f32,
    i32,
    u32,
)
from tilewright.dims import B, M, N
from tilewright.runtime.memory.partition import find_tiling


class I(tw.AnyDType):  # noqa: E742 the dtype of indices
    """Any integer."""


LARGEST = 2**31 - 1
X = np.arange(16, dtype=np.float32)


def result(kernel, *arguments, dtype=f32, **constants):
    z = tw.zeros((4,), dtype)
    kernel(z.partition(4), *arguments, **constants).sync()
    return z.numpy().tolist()


# --- windows --------------------------------------------------------------------------------------


@tw.kernel
def counted(z: Mut[i32, B], x: Ref[f32, N], *, STEP: Const[int]) -> None:
    z.store(tw.full((B,), x.windows(4, step=STEP).num_tiles(0), i32))


@tw.kernel
def total(z: Mut[f32, B], x: Ref[f32, N], *, STEP: Const[int]) -> None:
    ws = x.windows(B, step=STEP)
    t = tw.zeros((B,), f32)
    for i in range(ws.num_tiles(0)):
        t += ws[i]
    z.store(t)


@tw.kernel
def picked(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[u32, M], *, STEP: Const[int]) -> None:
    z.store(x.windows(B, step=STEP)[ids.partition(1)[0].item()])


@tw.kernel
def never(z: Mut[f32, B], x: Ref[f32, N], *, STEP: Const[int]) -> None:
    ws = x.windows(B, step=STEP)
    t = tw.zeros((B,), f32)
    for i in range(-ws.num_tiles(0)):
        t += ws[i - 1]
    z.store(t)


STEPS = [3, 2**24, 2**24 + 1, 2**30, LARGEST - 1, LARGEST]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("extent", [0, 1, 3, 4, 16])
def test_windows_of_any_step_are_counted(step, extent):
    x = np.arange(extent, dtype=np.float32)
    starts = range(0, extent, step)
    assert result(counted, x, STEP=step, dtype=i32) == [len(starts)] * 4
    padded = np.pad(x, (0, 4))
    expected = sum((padded[start : start + 4] for start in starts), np.zeros(4, np.float32))
    assert result(total, x, STEP=step) == expected.tolist()
    assert result(never, x, STEP=step) == [0.0] * 4


@pytest.mark.parametrize("step", [2**24, 2**24 + 1, LARGEST])
def test_an_index_of_far_windows_is_checked(step):
    assert result(picked, X, np.array([0], np.uint32), STEP=step) == [0, 1, 2, 3]
    with pytest.raises(OutOfBoundsError, match="index 1 is outside axis 0"):
        result(picked, X, np.array([1], np.uint32), STEP=step)


@pytest.mark.parametrize("step", [2**31, 2**31 + 1, 2**32 - 4, 2**32, 2**33, 2**63, 2**70])
@pytest.mark.parametrize("kernel", [counted, total, never])
def test_a_step_beyond_32_bits_is_refused(kernel, step):
    with pytest.raises(CompileError, match=rf"a step of {step}: steps are counted in 32 bits"):
        result(kernel, X, STEP=step, dtype=i32 if kernel is counted else f32)


# --- outputs --------------------------------------------------------------------------------------


@tw.kernel
def ones(z: Mut[i32, B]) -> None:
    parts = z.partition(4)
    for i in range(parts.num_tiles(0)):
        parts.store(tw.full((4,), 1, i32), i)


@tw.kernel
def walked(z: Mapped[i32, B, M]) -> None:
    for at in z.indices():
        z.store(tw.full((B, M), 1, i32), at)


@tw.kernel
def within(z: Mapped[i32, B], n: i32, m: i32) -> None:
    for at in z.indices_within((n, m)):
        z.store(tw.full((B,), 1, i32), at)


@tw.kernel
def ragged(z: Mut[f32, B]) -> None:
    z.store(tw.full((B,), 1.0, f32))


@pytest.mark.parametrize("tile", [2**24, 2**30, LARGEST - 3])
@pytest.mark.parametrize("extent", [0, 16])
def test_a_long_tile_is_cut_into_parts(tile, extent):
    z = tw.zeros((extent,), i32)
    ones(z.partition(tile)).sync()
    assert z.numpy().sum() == extent


@pytest.mark.parametrize("tile", [2**31, 2**32, 2**33 + 4, 2**70])
@pytest.mark.parametrize("extent", [0, 16])
def test_a_tile_longer_than_an_axis_can_be_is_refused(tile, extent):
    message = f"a tile of {tile} elements along axis 0 is longer than an axis can be, at most 2147"
    with pytest.raises(LaunchError, match=message):
        tw.zeros((extent,), i32).partition(tile)
    with pytest.raises(LaunchError, match=message.replace("axis 0", "axis 1")):
        tw.zeros((0, extent), i32).partition(4, tile)


def test_an_extent_rounded_up_to_its_tile_has_room():
    with pytest.raises(LaunchError, match="rounded up to tiles of 1500000000 is over 2147483647"):
        find_tiling((2_000_000_000,), (1_500_000_000,), (), False, None)
    assert find_tiling((2_000_000_000,), (1_000_000_000,), (), False, None).grid == (2,)


@pytest.mark.parametrize("group", [(LARGEST, LARGEST), (2**16, 2**16), (2**62, 3), (1, 2**31)])
@pytest.mark.parametrize("blocks", [1, 3, LARGEST, 2**40])
def test_walks_in_groups_larger_than_the_grid(group, blocks):
    z = tw.zeros((20, 12), i32)
    walked(z.partition(4, 4).persistent(blocks, group=group)).sync()
    assert z.numpy().sum() == 240


@pytest.mark.parametrize(
    ("start", "stop", "expected"),
    [
        (-(2**31), LARGEST, [1, 1, 1, 1]),
        (LARGEST, -(2**31), [0, 0, 0, 0]),
        (2, LARGEST, [0, 0, 1, 1]),
        (-(2**31), 2, [1, 1, 0, 0]),
        (LARGEST, LARGEST, [0, 0, 0, 0]),
    ],
)
def test_ends_of_a_walk_lie_anywhere(start, stop, expected):
    z = tw.zeros((16,), i32)
    within(z.partition(4).persistent(2), start, stop).sync()
    assert z.numpy()[::4].tolist() == expected


@pytest.mark.parametrize("height", [4, 64])
@pytest.mark.parametrize(
    ("offsets", "rows"),
    [
        ([0, 8, 16], 16),
        ([-(2**31), 0, LARGEST], 16),
        ([0, 2**40, 2**63 - 1], 16),
        ([-(2**63), 2**63 - 1, 16], 16),
        ([5, 3, 16], 11),
    ],
)
def test_offsets_of_segments_lie_anywhere(offsets, rows, height):
    z = tw.zeros((16,), f32)
    ragged(z.partition(height, segments=tw.from_numpy(np.array(offsets)))).sync()
    assert z.numpy().sum() == rows


@pytest.mark.parametrize("grid", [(2**31,), (2**16, 2**16), (2**40, 1)])
def test_more_blocks_than_a_launch_can_have_are_refused(grid):
    with pytest.raises(LaunchError, match=r"more than (a launch can have|can be counted)"):
        walked.grid(*grid)(tw.zeros((4, 4), i32).partition(4, 4).persistent())


@pytest.mark.parametrize("grid", [(0,), (0, 2**40), (2**40, 0)])
def test_no_blocks_write_nothing(grid):
    z = tw.zeros((4, 4), i32)
    walked.grid(*grid)(z.partition(4, 4).persistent()).sync()
    assert z.numpy().sum() == 0


# --- loops ----------------------------------------------------------------------------------------


@tw.kernel
def turns(z: Mut[i32, B], first: i32, last: i32, step: i32) -> None:
    t = 0
    for _ in range(first, last, step):
        t += 1
        if t == 9:
            break
    z.store(tw.full((B,), t, i32))


@tw.kernel
def turns_down(z: Mut[i32, B], first: i32, last: i32) -> None:
    t = 0
    for _ in range(first, last, -3):
        t += 1
        if t == 9:
            break
    z.store(tw.full((B,), t, i32))


@pytest.mark.parametrize(
    ("first", "last", "step"),
    [
        (LARGEST - 3, LARGEST, 2),
        (LARGEST - 3, LARGEST, LARGEST),
        (0, LARGEST, LARGEST - 1),
        (-(2**31), LARGEST, LARGEST),
        (-(2**31), -(2**31) + 3, 1),
        (LARGEST, -(2**31), 1),
    ],
)
def test_a_counter_does_not_come_round(first, last, step):
    expected = min(len(range(first, last, step)), 9)
    assert result(turns, first, last, step, dtype=i32) == [expected] * 4


@pytest.mark.parametrize(
    ("first", "last"), [(-(2**31) + 4, -(2**31)), (LARGEST, LARGEST - 7), (0, 5), (5, -(2**31))]
)
def test_a_counter_does_not_come_round_downwards(first, last):
    expected = min(len(range(first, last, -3)), 9)
    assert result(turns_down, first, last, dtype=i32) == [expected] * 4


# --- indices --------------------------------------------------------------------------------------


@tw.kernel
def clipped(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[I, M]) -> None:
    xs = x.partition(B)
    z.store(xs[xs.clip(ids.partition(1)[0].item(), 0)])


@tw.kernel
def indexed(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[I, M]) -> None:
    z.store(x.partition(B)[ids.partition(1)[0].item()])


@tw.kernel
def gathered(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[I, M]) -> None:
    z.store(x.gather(ids.partition(B)[0]))


@tw.kernel
def tallied(z: Mut[i32, B], counts: Accum[i32, N], ids: Ref[I, M]) -> None:
    counts.add_at(1, ids.partition(B)[0])
    z.store(tw.zeros((B,), i32))


WIDTHS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("count", [1, 128, 200, 257])
def test_indices_of_every_width_meet_axes_longer_than_they_count(width, count):
    x = np.repeat(np.arange(count, dtype=np.float32), 4)
    info = np.iinfo(width)
    for index in {info.min, info.max, 0, 5, min(info.max, 250), min(info.max, 2**32 + 1)}:
        ids = np.array([index], width)
        assert result(clipped, x, ids)[0] == min(max(index, 0), count - 1)
        if 0 <= index < count:
            assert result(indexed, x, ids)[0] == index
        else:
            with pytest.raises(OutOfBoundsError):
                result(indexed, x, ids)


@pytest.mark.parametrize("width", WIDTHS)
def test_elements_far_outside_are_padding_and_no_cells(width):
    info = np.iinfo(width)
    ids = np.array([info.min, info.max, 3, min(info.max, 2**32 + 3)], width)
    inside = [0 <= int(index) < 16 for index in ids]
    expected = [float(index) if is_in else 0.0 for index, is_in in zip(ids, inside, strict=True)]
    assert result(gathered, X, ids) == expected
    counts = tw.zeros((16,), i32)
    result(tallied, counts, ids, dtype=i32)
    assert counts.numpy().sum() == sum(inside)
