"""Tokens order what conflicts, through every nest of control flow, and nothing else."""

import pytest
from block_interpreter import World, run, unordered_conflicts
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_samples import Sample, mnemonics, only

from tilewright.dtypes import Element
from tilewright.ir.attributes import AtomicMode, MemoryOrder
from tilewright.ir.launch_terms import BaseAddress, Extent, ScalarArgument
from tilewright.ir.ops.control import Break, Continue, For, If, Loop, Return
from tilewright.ir.ops.elementwise import AddI, DivI, RemI
from tilewright.ir.ops.internal import LaunchValue
from tilewright.ir.ops.memory import AtomicRmw, JoinTokens, LoadPtr, LoadView, Offset, StoreView
from tilewright.ir.types import PtrType, scalar
from tilewright.passes.drop_dead_code import drop_dead_code
from tilewright.passes.merge_duplicates import merge_duplicates
from tilewright.passes.order_tokens import order_tokens


def ordered(sample):
    return drop_dead_code(order_tokens(merge_duplicates(sample.done())))


def execute(function, *, condition=1, count=4, blocks=1):
    terms = {Extent(name, axis): 4 * count for name in "xyz" for axis in range(3)}
    terms[ScalarArgument("c")] = condition
    return run(function, World(terms, blocks)).accesses


def assert_ordered(function, **run_with):
    for condition in (0, 1):
        accesses = execute(function, condition=condition, **run_with)
        assert unordered_conflicts(accesses) == []


def loads_and_stores(function):
    return only(function, LoadView), only(function, StoreView)


# --- straight lines ------------------------------------------------------------------------------


def test_a_tensor_that_is_only_read_gets_no_tokens():
    s = Sample()
    x, z, at = s.view("x"), s.view("z"), s.index(0)
    s.store(s.sum(s.load(x, at), s.load(x, at)), z, at)
    function = ordered(s)
    loads, stores = loads_and_stores(function)
    assert [op.token for op in (*loads, *stores)] == [None] * 3
    assert "make_token" not in mnemonics(function)


def test_a_load_waits_for_the_last_store_and_a_store_for_the_loads_since():
    s = Sample()
    x, z, at = s.view("x"), s.view("z"), s.index(0)
    s.store(s.load(x, at), z, at)
    first, second = s.load(z, at), s.load(z, at)
    s.store(s.sum(first, second), z, at)
    function = ordered(s)
    (read, a, b), (one, two) = loads_and_stores(function)
    assert read.token is None
    assert one.token is None
    assert a.token is b.token is one.result_token
    (join,) = only(function, JoinTokens)
    assert join.tokens == (a.result_token, b.result_token)
    assert two.token is join.result


def test_a_load_never_waits_for_a_load():
    s = Sample()
    z, at = s.view("z"), s.index(0)
    total = s.load(z, at)
    for _ in range(3):
        total = s.sum(total, s.load(z, at))
    s.store(total, z, at)
    loads, (store,) = loads_and_stores(function := ordered(s))
    assert [load.token for load in loads] == [None] * 4
    (join,) = only(function, JoinTokens)
    assert store.token is join.result


def test_two_tensors_do_not_wait_for_each_other():
    s = Sample()
    y, z, at = s.view("y"), s.view("z"), s.index(0)
    s.store(s.tile(1), y, at)
    s.store(s.load(y, at), z, at)
    (load,), (one, two) = loads_and_stores(ordered(s))
    assert load.token is one.result_token
    assert two.token is None


# --- control flow: a store in a region is ordered before what follows ----------------------------


def test_a_store_in_a_branch():
    s = Sample()
    z, at = s.view("z"), s.index(0)
    s.choose(s.scalar("c"), lambda: s.store(s.tile(1), z, at))
    s.store(s.tile(2), z, at)
    function = ordered(s)
    (inner, after) = only(function, StoreView)
    (branch,) = only(function, If)
    assert after.token is branch.results[0]
    assert branch.then_body.ops[-1].values == (inner.result_token,)
    assert_ordered(function)


def test_a_store_in_both_branches_and_before():
    s = Sample()
    z, at = s.view("z"), s.index(0)
    s.store(s.tile(0), z, at)
    s.choose(
        s.scalar("c"),
        lambda: s.store(s.tile(1), z, at),
        lambda: s.store(s.load(z, at), z, at),
    )
    s.store(s.load(z, at), z, at)
    assert_ordered(ordered(s))


@pytest.mark.parametrize("same_tile", [True, False])
def test_a_store_in_a_counted_loop(same_tile):
    s = Sample()
    z, at = s.view("z"), s.index(0)
    with s.loop(s.count("z")) as k:
        s.store(s.tile(1), z, at if same_tile else k)
    s.store(s.tile(2), z, at)
    function = ordered(s)
    (inner, after) = only(function, StoreView)
    (loop,) = only(function, For)
    assert after.token is loop.results[0]
    if same_tile:
        assert inner.token is loop.body.args[1]
    else:
        assert inner.token is None  # the steps never meet, and nothing came before
    assert_ordered(function)


def test_a_store_in_an_endless_loop():
    s = Sample()
    z, at, limit = s.view("z"), s.index(0), s.scalar("c")
    with s.endless():
        s.store(s.tile(1), z, at)
        s.choose(limit, lambda: Break(), lambda: Break())
    s.store(s.tile(2), z, at)
    function = ordered(s)
    (loop,) = only(function, Loop)
    assert only(function, StoreView)[1].token in loop.results
    assert_ordered(function)


def test_a_break_hands_on_the_token_of_its_own_path():
    s = Sample()
    z, at = s.view("z"), s.index(0)

    def leave():
        s.store(s.tile(1), z, at)
        return Break()

    with s.endless():
        s.choose(s.scalar("c"), leave)
        s.store(s.tile(2), z, at)
        s.choose(s.index(1), lambda: Break())
    s.store(s.tile(3), z, at)
    function = ordered(s)
    (loop,) = only(function, Loop)
    jumps = only(function, Break)
    assert [len(jump.values) for jump in jumps] == [len(loop.results)] * 2
    assert jumps[0].values != jumps[1].values
    assert_ordered(function)


def test_a_continue_hands_on_the_token_of_its_own_path():
    s = Sample()
    z, at = s.view("z"), s.index(0)

    def skip():
        s.store(s.tile(1), z, at)
        return Continue()

    with s.loop(s.count("z")):
        s.choose(s.scalar("c"), skip)
        s.store(s.tile(2), z, at)
    s.store(s.tile(3), z, at)
    assert_ordered(ordered(s))


def test_an_early_return_hands_on_nothing():
    s = Sample()
    z, at = s.view("z"), s.index(0)

    def leave():
        s.store(s.tile(1), z, at)
        return Return()

    s.choose(s.scalar("c"), leave)
    s.store(s.tile(2), z, at)
    function = ordered(s)
    assert [op.values for op in only(function, Return)] == [(), ()]
    assert_ordered(function)


def test_loads_in_a_loop_wait_only_for_what_came_before_it():
    s = Sample()
    z, at = s.view("z"), s.index(0)
    s.store(s.tile(1), z, at)
    with s.loop(s.count("z")) as k:
        s.store(s.load(z, at), s.view("y"), k)
    s.store(s.tile(2), z, at)
    function = ordered(s)
    first, _, last = only(function, StoreView)
    (load,) = only(function, LoadView)
    assert load.token is first.result_token
    assert last.token in only(function, For)[0].results
    assert_ordered(function)


def test_an_inner_loop_carries_only_what_it_touches():
    s = Sample()
    y, z, at = s.view("y"), s.view("z"), s.index(0)
    with s.loop(s.count("z")):
        s.store(s.load(y, at), z, at)
        with s.loop(s.count("y")):
            s.store(s.load(z, at), y, at)
    function = ordered(s)
    assert_ordered(function)


# --- steps that never meet -----------------------------------------------------------------------


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


# --- pointers and atomics ------------------------------------------------------------------------

POINTER = scalar(PtrType(Element.I32))


def pointer(s, term):
    base = s.add(LaunchValue(term=term, to=POINTER)).result
    return s.add(Offset(ptr=base, offset=s.index(1))).result


def atomic_add(s, target, order=MemoryOrder.RELAXED):
    op = AtomicRmw(pointers=target, arg=s.index(1), mode=AtomicMode.ADD, memory_ordering=order)
    return s.add(op)


def test_blind_atomics_run_in_any_order():
    s = Sample()
    target = pointer(s, BaseAddress("acc"))
    for _ in range(2):
        atomic_add(s, target)
    assert [op.token for op in only(ordered(s), AtomicRmw)] == [None, None]


def test_atomics_whose_result_is_used_are_ordered():
    s = Sample()
    target = pointer(s, BaseAddress("acc"))
    first, second = atomic_add(s, target), atomic_add(s, target)
    s.store(s.tile(0), s.view("z"), s.sum(first.result, second.result))
    one, two = only(ordered(s), AtomicRmw)
    assert one.token is None
    assert two.token is one.result_token


def test_a_raw_pointer_may_be_any_tensor():
    s = Sample()
    raw = pointer(s, ScalarArgument("p"))
    z, at = s.view("z"), s.index(0)
    s.store(s.tile(1), z, at)
    loaded = s.add(LoadPtr(source=raw)).result
    s.store(s.tile(2), z, loaded)
    function = ordered(s)
    (load,) = only(function, LoadPtr)
    one, two = only(function, StoreView)
    assert load.token is one.result_token
    assert two.token is load.result_token


def test_an_acquire_orders_tensors_that_are_only_read():
    s = Sample()
    atomic_add(s, pointer(s, BaseAddress("lock")), MemoryOrder.ACQUIRE)
    x, z, at = s.view("x"), s.view("z"), s.index(0)
    s.store(s.load(x, at), z, at)
    function = ordered(s)
    (acquire,) = only(function, AtomicRmw)
    (load,) = only(function, LoadView)
    assert load.token is acquire.result_token


# --- random programs -----------------------------------------------------------------------------

leaf = st.tuples(st.sampled_from(["load", "store"]), st.sampled_from("yz"), st.integers(0, 2))
jump = st.tuples(st.sampled_from(["break", "continue", "return"]), st.booleans())
statements = st.recursive(
    st.lists(leaf | jump, max_size=3),
    lambda inner: st.lists(
        leaf
        | jump
        | st.tuples(st.just("if"), inner, inner)
        | st.tuples(st.just("for"), inner)
        | st.tuples(st.just("loop"), inner)
        | st.tuples(st.just("walk"), inner),
        max_size=4,
    ),
    max_leaves=12,
)


class Program:
    """Builds a random program; an index 0 is fixed, 1 and 2 are loop counters where there are."""

    def __init__(self, steps):
        self.s = Sample()
        self.views = {name: self.s.view(name) for name in "yz"}
        self.counts = self.s.count("z")
        self.condition = self.s.scalar("c")
        self.build(steps, (self.s.index(0),), ())
        self.function = ordered(self.s)

    def build(self, steps, counters, loops):
        for step in steps:
            getattr(self, "build_" + step[0], self.build_jump)(step, counters, loops)

    def build_load(self, step, counters, loops):
        tile = self.s.load(self.views[step[1]], counters[step[2] % len(counters)])
        self.s.store(tile, self.s.view("x"), self.s.index(0))

    def build_store(self, step, counters, loops):
        at = counters[-1 - step[2] % len(counters)]
        self.s.store(self.s.tile(1), self.views[step[1]], at)

    def build_jump(self, step, counters, loops):
        kinds = {"return": Return, "continue": Continue, "break": Break}
        kind = kinds[step[0]]
        if loops and loops[-1] == "for" and kind is not Continue:
            return
        if not loops and kind is not Return:
            return
        if loops and kind is Return:
            return
        then, otherwise = (lambda: kind()), (lambda: None)
        self.s.choose(self.condition, *(then, otherwise) if step[1] else (otherwise, then))

    def build_if(self, step, counters, loops):
        def branch(steps):
            return lambda: self.build(steps, counters, loops)

        self.s.choose(self.condition, branch(step[1]), branch(step[2]))

    def build_for(self, step, counters, loops):
        with self.s.loop(self.counts) as number:
            self.build(step[1], (*counters, number), (*loops, "for"))

    def build_walk(self, step, counters, loops):
        with self.s.walk(self.counts) as (number,):
            self.build(step[1], (*counters, number), (*loops, "for"))

    def build_loop(self, step, counters, loops):
        with self.s.endless():
            self.build(step[1], counters, (*loops, "loop"))
            self.s.choose(self.condition, Break, Break)


@settings(max_examples=150, deadline=None)
@given(statements)
def test_random_programs_have_no_unordered_conflict(steps):
    assert_ordered(Program(steps).function, count=2)
