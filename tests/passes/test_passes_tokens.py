"""Tokens order what conflicts, through every nest of control flow, and nothing else."""

import pytest
from ir_samples import Sample, mnemonics, only
from token_order import assert_ordered, loads_and_stores, ordered

from tilewright.dtypes import Element
from tilewright.ir.attributes import AtomicMode, MemoryOrder
from tilewright.ir.launch_terms import BaseAddress, ScalarArgument
from tilewright.ir.ops.control import Break, Continue, For, If, Loop, Return
from tilewright.ir.ops.internal import LaunchValue
from tilewright.ir.ops.memory import AtomicRmw, JoinTokens, LoadPtr, LoadView, Offset, StoreView
from tilewright.ir.types import PtrType, scalar

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
