"""Loops whose steps touch different tiles are not ordered between their steps; others are."""

import pytest
from ir_samples import Sample, only
from token_order import assert_ordered, ordered

from tilewright.ir.ops.elementwise import AddI, DivI, RemI
from tilewright.ir.ops.internal import PartIndex, Walk
from tilewright.ir.ops.memory import LoadView, StoreView
from tilewright.passes import order_tokens


def stores_in_walk(build):
    s = Sample()
    z = s.view("z", 2)
    with s.walk(s.count("z", 0), s.count("z", 1)) as (i, j):
        build(s, z, i, j)
    function = ordered(s)
    assert_ordered(function, count=3)
    return only(function, StoreView)


def test_the_tiles_of_a_walk_are_stored_without_tokens():
    (store,) = stores_in_walk(lambda s, z, i, j: s.store(s.tile(1, 2), z, i, j))
    assert store.token is None


def test_load_and_store_of_the_walked_tile_are_ordered_within_the_step_only():
    (store,) = stores_in_walk(lambda s, z, i, j: s.store(s.load(z, i, j), z, i, j))
    assert store.token is not None


def test_a_walk_that_drops_a_coordinate_carries_its_token():
    (store,) = stores_in_walk(lambda s, z, i, j: s.store(s.tile(1, 2), z, i, s.index(0)))
    assert store.token is not None


def test_a_walk_that_swaps_coordinates_between_accesses_carries_its_token():
    def build(s, z, i, j):
        s.store(s.load(z, j, i), z, i, j)

    stores_in_walk(build)  # the interpreter checks the order


def test_an_inner_loop_over_one_walked_tile_is_ordered():
    def build(s, z, i, j):
        with s.loop(s.count("z", 0)):
            s.store(s.tile(1, 2), z, i, j)

    (store,) = stores_in_walk(build)
    assert store.token is not None


def test_a_walk_in_a_loop_is_ordered_between_the_rounds():
    s = Sample()
    z = s.view("z", 2)
    with s.loop(s.index(2)), s.walk(s.count("z", 0), s.count("z", 1)) as (i, j):
        s.store(s.tile(1, 2), z, i, j)
    assert_ordered(ordered(s), count=2)


@pytest.mark.parametrize("kind", [DivI, RemI])
def test_a_computed_index_that_collides_is_ordered(kind):
    s = Sample()
    z = s.view("z")
    with s.loop(s.count("z")) as k:
        s.store(s.tile(1), z, s.add(kind(lhs=k, rhs=s.index(2))).result)
    function = ordered(s)
    (store,) = only(function, StoreView)
    assert store.token is not None
    assert_ordered(function)


def test_a_shifted_counter_does_not_collide_but_two_different_shifts_do():
    def stores(*shifts):
        s = Sample()
        z, base = s.view("z"), s.scalar("c")
        with s.loop(s.count("z")) as k:
            for shift in shifts:
                offset = s.add(AddI(lhs=base, rhs=s.index(shift))).result
                s.store(s.tile(1), z, s.sum(offset, k))
        function = ordered(s)
        assert_ordered(function)
        return [store.token for store in only(function, StoreView)]

    assert stores(3) == [None]
    assert None not in stores(0, 1)


def test_an_index_that_changes_with_the_loop_in_another_way_is_ordered():
    s = Sample()
    x, z = s.view("x"), s.view("z")
    with s.loop(s.count("z")) as k:
        loaded = s.load(x, k)
        s.store(loaded, z, s.sum(k, k))
    (store,) = only(ordered(s), StoreView)
    assert store.token is not None  # 2k is injective, but only k itself is recognised


def part(s, piece, own, parts=2):
    return s.add(PartIndex(piece=piece, own=own, parts=parts)).result


def parts_in_walk(build):
    """A walk over pieces of 8, in parts of 4."""
    s = Sample()
    z = s.view("z")
    with s.walk(s.count("z", tile=8)) as (i,):
        build(s, z, i)
    function = ordered(s)
    assert_ordered(function, count=4)
    return function


def test_parts_of_the_walked_pieces_are_stored_without_tokens():
    def build(s, z, i):
        with s.loop(s.index(2)) as c:
            s.store(s.tile(1), z, part(s, i, c))

    (store,) = only(parts_in_walk(build), StoreView)
    assert store.token is None


@pytest.fixture
def large(monkeypatch):
    """Tiles of these tests count as large: every element is in one thread."""
    monkeypatch.setattr(order_tokens, "_MOST_THREADS", 1)


def add_in_place(s, z, i, j):
    s.store(s.sum(s.load(z, i, j), s.tile(1, 2)), z, i, j)


def read_and_written():
    s = Sample()
    z = s.view("z", 2)
    with s.loop(s.index(2)), s.walk(s.count("z", 0), s.count("z", 1)) as (i, j):
        add_in_place(s, z, i, j)
    function = ordered(s)
    assert_ordered(function, count=3)
    (load,), (walk,) = only(function, LoadView), only(function, Walk)
    return load.token, walk


def test_large_tiles_that_are_read_and_written_wait_for_none_of_the_same_walk(large):
    token, walk = read_and_written()
    assert token is not None, "it waits for the walk before"
    assert token not in walk.body.args


def test_small_tiles_that_are_read_and_written_wait_for_each_other():
    token, walk = read_and_written()
    assert token in walk.body.args


def test_parts_at_any_place_of_a_piece_belong_to_its_step(large):
    def build(s, z, i):
        s.store(s.tile(1), z, part(s, i, s.index(0)))
        with s.loop(s.index(2)) as c:
            s.store(s.load(z, part(s, i, s.index(1))), z, part(s, i, c))

    function = parts_in_walk(build)
    first, second = only(function, StoreView)
    assert first.token is None  # nothing of an earlier step is waited for
    assert second.token is not None


def test_parts_of_pieces_of_two_sizes_are_ordered():
    def build(s, z, i):
        s.store(s.tile(1), z, part(s, i, s.index(0)))
        s.store(s.tile(1), z, i)  # counted in parts, it is another place

    parts_in_walk(build)  # the interpreter checks the order


def test_parts_that_collide_in_an_inner_loop_are_ordered_there():
    def build(s, z, i):
        with s.loop(s.index(4)) as c:
            s.store(s.tile(1), z, part(s, i, s.add(RemI(lhs=c, rhs=s.index(2))).result))

    (store,) = only(parts_in_walk(build), StoreView)
    assert store.token is not None
