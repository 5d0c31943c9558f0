"""Every tile of a walk is visited exactly once, whatever the shape, the group and the grid."""

from itertools import product

import pytest
from block_interpreter import World, run
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_samples import Sample, mnemonics, only, text

from tilewright.ir.launch_terms import Extent, ScalarArgument
from tilewright.ir.ops.control import For
from tilewright.ir.ops.internal import BlockIndex, Walk
from tilewright.passes.lower_walks import lower_walks


def walk_of(rank, group=(1, 1), ranged=(), order=()):
    """A walk; along the axes of `ranged` from the scalar `start` to the scalar `stop`."""
    sample = Sample()
    view = sample.view("z", rank)
    within = {
        axis: tuple(sample.scalar(f"{end}{axis}") for end in ("start", "stop")) for axis in ranged
    }
    counts = (sample.count("z", axis) for axis in range(rank))
    with sample.walk(*counts, group=group, within=within, order=order) as place:
        sample.store(sample.tile(1, rank), view, *place)
    return sample.done()


def visits(function, counts, blocks, ranges=None):
    """The tiles in the order in which each block stores them."""
    terms = {Extent("z", axis): 4 * count - 1 for axis, count in enumerate(counts)}
    for axis, ends in (ranges or {}).items():
        terms[ScalarArgument(f"start{axis}")], terms[ScalarArgument(f"stop{axis}")] = ends
    found = []
    for block in range(blocks):
        world = World(terms, blocks, counts={"z": tuple(counts)})
        found.append([access.index for access in run(function, world, block).accesses])
    return found


def visits_when_lowered(counts, group, blocks, ranges=None, order=()):
    walk = walk_of(len(counts), group, tuple(ranges or ()), order)
    return visits(lower_walks(walk), counts, blocks, ranges)


EXTREMES = (-(2**31), -1, 2**31 - 1)
ends = st.tuples(st.integers(-2, 7), st.integers(-2, 7))


@settings(max_examples=120)
@given(
    counts=st.lists(st.integers(0, 5), min_size=1, max_size=4),
    group=st.tuples(st.integers(1, 7), st.integers(1, 4)),
    blocks=st.integers(1, 9),
    data=st.data(),
)
def test_each_tile_of_the_range_belongs_to_one_block(counts, group, blocks, data):
    ranges = {
        axis: data.draw(ends | st.tuples(st.sampled_from(EXTREMES), st.sampled_from(EXTREMES)))
        for axis in data.draw(st.sets(st.sampled_from(range(len(counts)))))
    }
    order = data.draw(st.just(()) | st.permutations(range(len(counts))))
    order = tuple(~axis if data.draw(st.booleans()) else axis for axis in order)
    found = visits_when_lowered(counts, (1, 1) if order else group, blocks, ranges, order)
    every = sorted(tile for share in found for tile in share)
    cut = [range(*ranges.get(axis, (0, count))) for axis, count in enumerate(counts)]
    assert every == [
        tile
        for tile in product(*map(range, counts))
        if all(number in allowed for number, allowed in zip(tile, cut, strict=True))
    ]


@settings(max_examples=30)
@given(counts=st.lists(st.integers(0, 4), min_size=1, max_size=3), range_=ends)
def test_a_walk_in_order_means_what_its_loop_does(counts, range_):
    for blocks in (1, 3):
        walk = walk_of(len(counts), ranged=(0,))
        arguments = counts, blocks, {0: range_}
        assert visits(walk, *arguments) == visits(lower_walks(walk), *arguments)


def test_shares_differ_by_at_most_one_tile():
    shares = visits_when_lowered((5, 7), (3, 1), 4)
    assert sorted(map(len, shares)) == [8, 9, 9, 9]


def test_an_empty_axis_is_not_walked():
    for group in ((1, 1), (4, 1), (4, 2)):
        assert visits_when_lowered((0, 3), group, 2) == [[], []]
        assert visits_when_lowered((3, 0), group, 2) == [[], []]


def test_without_a_group_the_last_axis_is_fastest():
    (order,) = visits_when_lowered((2, 1, 3), (1, 1), 1)
    assert order == sorted(order)


def test_a_group_walks_bands_column_by_column():
    (order,) = visits_when_lowered((3, 2), (2, 1), 1)
    assert order == [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (2, 1)]


def test_a_group_of_both_axes_is_finished_before_the_next():
    (order,) = visits_when_lowered((3, 5), (2, 2), 1)
    assert order[:4] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert order[4:8] == [(0, 2), (0, 3), (1, 2), (1, 3)]
    assert order[8:10] == [(0, 4), (1, 4)]
    assert order[10:] == [(2, 0), (2, 1), (2, 2), (2, 3), (2, 4)]


def test_an_order_of_axes_is_kept():
    (order,) = visits_when_lowered((2, 3), (1, 1), 1, order=(1, 0))
    assert order == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]


def test_blocks_take_turns_where_the_last_tiles_come_first():
    found = visits_when_lowered((1, 7), (1, 1), 3, order=(~1, 0))
    assert found == [[(0, 6), (0, 1), (0, 0)], [(0, 5), (0, 2)], [(0, 4), (0, 3)]]


def test_leading_axes_keep_their_order():
    (order,) = visits_when_lowered((2, 3, 2), (2, 1), 1)
    assert order[:6] == [(0, 0, 0), (0, 1, 0), (0, 0, 1), (0, 1, 1), (0, 2, 0), (0, 2, 1)]
    assert [tile[0] for tile in order] == [0] * 6 + [1] * 6


def test_a_group_means_nothing_on_one_axis():
    assert text(lower_walks(walk_of(1, (1, 8)))) == text(lower_walks(walk_of(1)))


def test_a_band_larger_than_the_plane_does_not_overflow():
    sample = Sample()
    view = sample.view("z", 2)
    with sample.walk(sample.extent("z", 0), sample.extent("z", 1), group=(8, 8)) as place:
        sample.store(sample.tile(1, 2), view, *place)
    function = lower_walks(sample.done())
    # One row of 2^30 tiles: eight such rows would not fit in 32 bits. The last block of many:
    terms = {Extent("z", 0): 1, Extent("z", 1): 2**30}
    world = World(terms, 2**30, counts={"z": (1, 2**30)})
    (access,) = run(function, world, 2**30 - 1).accesses
    assert access.index == (0, 2**30 - 1)


def test_a_walk_is_a_counted_loop():
    function = lower_walks(walk_of(2, (4, 2), ranged=(1,)))
    assert not only(function, Walk)
    (loop,) = only(function, For)
    assert not loop.unsigned_cmp
    before = function.body.ops[: function.body.ops.index(loop)]
    names = [op.mnemonic for op in before]
    assert "divi" not in names  # a division before an empty loop could be one by zero
    assert names.count("get_tile_block_id") == 1


def test_carried_values_go_through():
    sample = Sample()
    view, count = sample.view("z"), sample.count("z")
    from tilewright.ir.op import Block, Value
    from tilewright.ir.ops.control import Continue

    i, total = Value(count.type), Value(count.type)
    with sample.inside(Block((i, total))) as body:
        sample.add(Continue(values=(sample.sum(total, i),)))
    first = sample.index(10)
    walk = sample.add(Walk(counts=(count,), init_values=(first,), outputs=("z",), body=body))
    sample.store(sample.tile(0), view, walk.result_values[0])
    function = lower_walks(sample.done())
    world = World({Extent("z", 0): 16}, 1)
    assert run(function, world).accesses[0].index == (10 + 0 + 1 + 2 + 3,)


@pytest.mark.parametrize("counts", [(5,), (3, 4), (2, 3, 2), (2, 1, 3, 2)])
def test_block_indices_are_row_major(counts):
    sample = Sample()
    view = sample.view("z", len(counts))
    index = BlockIndex(counts=tuple(sample.count("z", axis) for axis in range(len(counts))))
    sample.store(sample.tile(1, len(counts)), view, *sample.add(index).indices)
    function = sample.done()
    blocks = 1
    for count in counts:
        blocks *= count
    found = visits(lower_walks(function), counts, blocks)
    assert found == visits(function, counts, blocks)
    assert [place for (place,) in found] == sorted(place for (place,) in found)


def test_block_indices_descend_where_they_are_told_to():
    sample = Sample()
    counts = tuple(sample.count("z", axis) for axis in range(2))
    index = BlockIndex(counts=counts, descending=(1,))
    sample.store(sample.tile(1, 2), sample.view("z", 2), *sample.add(index).indices)
    found = visits(lower_walks(sample.done()), (2, 3), 6)
    assert [place for (place,) in found] == [(0, 2), (0, 1), (0, 0), (1, 2), (1, 1), (1, 0)]


def test_one_axis_needs_no_division():
    sample = Sample()
    index = sample.add(BlockIndex(counts=(sample.count("z"),))).indices[0]
    sample.store(sample.tile(1), sample.view("z"), index)
    assert not {"divi", "remi"} & set(mnemonics(lower_walks(sample.done())))
