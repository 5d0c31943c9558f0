"""Every tile of a range is visited once, by one block, and nothing else is touched."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_language_outputs import ordered
from walked_ranges import walk, walked_6

import tilewright as tw
from tilewright import i32

MOST = 2**31 - 1

# Shapes that the tiles do not divide, and one axis with a single tile.
SHAPES = {
    1: [((29,), (4,)), ((3,), (4,))],
    2: [((9, 14), (2, 4)), ((1, 13), (1, 2))],
    3: [((3, 5, 6), (2, 2, 4)), ((2, 7, 1), (1, 2, 1))],
    4: [((2, 3, 5, 4), (1, 2, 2, 4)), ((1, 2, 1, 9), (1, 1, 1, 2))],
}
GROUPS = {1: [1], 2: [1, (3, 1), (2, 2), (1, 4)], 3: [1, (1, 2, 1), 2], 4: [1, (1, 1, 3, 2)]}


def counted(shape, tile):
    return [-(-extent // size) for extent, size in zip(shape, tile, strict=True)]


def ranges_of(counts):
    """For each axis one kind of range: whole, empty, the tail, the middle, beyond both ends."""
    yield tuple((0, count) for count in counts)
    yield (*((0, count) for count in counts[:-1]), (1, 1))
    yield tuple((count - 1, count) for count in counts)
    yield (*((-3, MOST) for _ in counts[:-1]), (counts[-1] // 2, counts[-1] + 5))
    yield tuple((count + 2, count + 9) for count in counts)
    yield tuple((-(2**31), MOST) for _ in counts)
    yield tuple((MOST, -(2**31)) for _ in counts)


CASES = [
    pytest.param(shape, tile, group, id=f"{shape}-{tile}-{group}".replace(" ", ""))
    for rank, shapes in SHAPES.items()
    for shape, tile in shapes
    for group in GROUPS[rank]
]


@pytest.mark.parametrize("blocks", [1, 3, 8, 1000])
@pytest.mark.parametrize(("shape", "tile", "group"), CASES)
def test_ranges_of_every_kind(shape, tile, group, blocks):
    for ranges in ranges_of(counted(shape, tile)):
        walk(shape, tile, ranges, blocks, group)


@st.composite
def walks(draw):
    rank = draw(st.integers(1, 4))
    shape = tuple(draw(st.lists(st.integers(0, 9), min_size=rank, max_size=rank)))
    tile = tuple(draw(st.lists(st.sampled_from([1, 2, 4]), min_size=rank, max_size=rank)))
    ends = st.integers(-3, 11) | st.sampled_from([-(2**31), MOST])
    ranges = tuple(draw(st.lists(st.tuples(ends, ends), min_size=rank, max_size=rank)))
    group = (1,) * rank
    order = draw(st.just(()) | st.permutations(range(rank)))
    order = tuple(~axis if draw(st.booleans()) else axis for axis in order)
    if rank > 1 and not order:
        sizes = st.integers(1, 4) | st.just(MOST)
        group = (*group[2:], draw(sizes), draw(sizes))
    return shape, tile, ranges, draw(st.none() | st.integers(1, 12)), group, order


@settings(max_examples=60)
@given(walks())
def test_random_walks(case):
    walk(*case)


@pytest.mark.parametrize("blocks", [1, 5])
@pytest.mark.parametrize("group", [1, (1, 1, 1, 1, 2, 2)])
def test_six_axes(blocks, group):
    z = tw.full((2, 3, 1, 2, 5, 3), 5, i32)
    with tw.race_check():
        cut = z.partition(1, 1, 1, 2, 2, 2).persistent(blocks=blocks, group=group)
        walked_6(cut, tw.from_numpy(np.array([1, 0], np.int32))).sync()
    b, r = np.ogrid[:3, :5]
    wanted = np.where((b >= 1) & (r // 2 < 2), 6 + b * 16 + r // 2, 5)
    np.testing.assert_array_equal(
        z.numpy(), np.broadcast_to(wanted[None, :, None, None, :, None], z.shape)
    )


def test_the_order_of_groups_of_both_axes():
    z = tw.zeros((3, 5), i32)
    ordered(z.partition(1, 1).persistent(blocks=1, group=(2, 2))).sync()
    wanted = [[0, 1, 4, 5, 8], [2, 3, 6, 7, 9], [10, 11, 12, 13, 14]]
    np.testing.assert_array_equal(z.numpy(), wanted)
