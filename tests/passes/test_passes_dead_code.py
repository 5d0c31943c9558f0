"""What nothing needs goes; what can be seen, or decides about what can be seen, stays."""

from block_interpreter import World, run
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_samples import I32, Sample, mnemonics, only, text

from tilewright.dtypes import Element
from tilewright.ir.attributes import AtomicMode, IntIdentity
from tilewright.ir.launch_terms import BaseAddress, Extent, ScalarArgument
from tilewright.ir.op import Block, Value
from tilewright.ir.ops.control import Assert, Break, Continue, For, If, Loop, Return, Yield
from tilewright.ir.ops.elementwise import AddI
from tilewright.ir.ops.internal import LaunchValue
from tilewright.ir.ops.memory import AtomicRmw, LoadView, StoreView
from tilewright.ir.ops.reduction import Reduce
from tilewright.ir.types import PtrType, scalar
from tilewright.passes.drop_dead_code import drop_dead_code


def counted(s, inits, build, upper=None):
    """A counted loop with carried values; `build` gives the next ones."""
    counter, carried = Value(I32), tuple(Value(value.type) for value in inits)
    start, step = s.index(0), s.index(1)
    with s.inside(Block((counter, *carried))) as body:
        s.add(Continue(values=build(counter, *carried)))
    upper = s.index(3) if upper is None else upper
    loop = For(lower_bound=start, upper_bound=upper, step=step, init_values=inits, body=body)
    return s.add(loop).result_values


def keep(s, value):
    """A use that stays: the value is where a tile goes."""
    s.store(s.tile(0), s.view("z"), value)


def stored_at(function, **scalars):
    terms = {Extent(name, 0): 400 for name in "xz"}
    terms.update({ScalarArgument(name): value for name, value in scalars.items()})
    return [a.index[0] for a in run(function, World(terms)).accesses if a.is_write]


def test_unused_arithmetic_and_loads_go():
    s = Sample()
    s.sum(s.load(s.view("x"), s.index(0)), s.tile(1))
    assert mnemonics(drop_dead_code(s.done())) == ["return"]


def test_writes_and_what_a_person_sees_stay():
    s = Sample()
    keep(s, s.index(0))
    s.add(Assert(condition=s.constant(1, Element.I1), message="no"))
    pointer = s.add(LaunchValue(term=BaseAddress("a"), to=scalar(PtrType(Element.I32)))).result
    s.add(AtomicRmw(pointers=pointer, arg=s.index(1), mode=AtomicMode.ADD))
    function = s.done()
    assert mnemonics(drop_dead_code(function)) == mnemonics(function)


def test_a_carried_value_that_only_feeds_itself_goes():
    s = Sample()
    used, _ = counted(
        s, (s.index(5), s.index(7)), lambda k, a, b: (s.sum(a, k), s.sum(b, s.index(2)))
    )
    keep(s, used)
    function = drop_dead_code(s.done())
    (loop,) = only(function, For)
    assert len(loop.init_values) == len(loop.results) == len(loop.body.args) - 1 == 1
    assert stored_at(function) == [5 + 0 + 1 + 2]


def test_a_carried_value_that_feeds_a_live_one_stays():
    s = Sample()
    used, _ = counted(s, (s.index(1), s.index(1)), lambda k, a, b: (b, s.sum(a, b)))
    keep(s, used)
    function = drop_dead_code(s.done())
    assert len(only(function, For)[0].init_values) == 2
    assert stored_at(function) == [3]  # the fourth Fibonacci number


def test_the_middle_of_three_carried_values_goes():
    s = Sample()
    a, _, c = counted(
        s, (s.index(1), s.index(2), s.index(3)), lambda k, a, b, c: (s.sum(a, c), b, s.sum(c, k))
    )
    keep(s, s.sum(a, c))
    function = drop_dead_code(s.done())
    assert len(only(function, For)[0].init_values) == 2
    assert stored_at(function) == [1 + 3 + 3 + 4 + 6]


def test_a_bound_that_is_also_a_dead_first_value_stays():
    s = Sample()
    bound = s.scalar("n")
    with_effect = s.view("z")

    def build(k, a):
        s.store(s.tile(0), with_effect, k)
        return (a,)

    counted(s, (bound,), build, upper=bound)
    function = drop_dead_code(s.done())
    assert only(function, For)[0].init_values == ()
    assert stored_at(function, n=2) == [0, 1]


def test_loops_and_branches_without_effects_go():
    s = Sample()
    with s.loop(s.index(3)) as k:
        s.choose(s.scalar("c"), lambda: s.sum(k, k) and None)
    with s.endless():
        s.choose(s.scalar("c"), Break)
    assert mnemonics(drop_dead_code(s.done())) == ["return"]


def test_a_branch_keeps_only_the_results_that_are_used():
    s = Sample()
    one, two = s.index(1), s.index(2)
    bodies = [Block((), [Yield(values=values)]) for values in ((one, two), (two, one))]
    branch = If(condition=s.scalar("c"), then_body=bodies[0], else_body=bodies[1], types=(I32, I32))
    keep(s, s.add(branch).result_values[1])
    function = drop_dead_code(s.done())
    (kept,) = only(function, If)
    assert kept.types == (I32,)
    assert [len(op.values) for op in only(function, Yield)] == [1, 1]
    assert stored_at(function, c=1) == [2]
    assert stored_at(function, c=0) == [1]


def test_an_endless_loop_keeps_its_own_arguments_and_results_apart():
    s = Sample()
    count, idle = Value(I32), Value(I32)
    with s.inside(Block((count, idle))) as body:
        after = s.sum(count, s.scalar("c"))
        s.choose(s.scalar("c"), lambda: Break(values=(idle, after)))
        s.add(Continue(values=(after, idle)))
    loop = Loop(init_values=(s.index(0), s.index(0)), body=body, types=(I32, I32))
    keep(s, s.add(loop).result_values[1])
    function = drop_dead_code(s.done())
    (kept,) = only(function, Loop)
    assert len(kept.init_values) == len(kept.body.args) == 1
    assert kept.types == (I32,)
    assert [len(op.values) for op in only(function, Break)] == [1]
    assert stored_at(function, c=1) == [1]


def test_a_jump_keeps_the_branch_that_decides_it():
    s = Sample()
    z = s.view("z")
    with s.loop(s.index(4)) as k:
        s.choose(s.scalar("c"), Continue)
        s.store(s.tile(0), z, k)
    function = drop_dead_code(s.done())
    assert stored_at(function, c=0) == [0, 1, 2, 3]
    assert stored_at(function, c=1) == []


def test_a_return_keeps_the_branch_that_decides_it():
    s = Sample()
    s.choose(s.scalar("c"), Return)
    keep(s, s.index(1))
    function = drop_dead_code(s.done())
    assert stored_at(function, c=0) == [1]
    assert stored_at(function, c=1) == []


def test_a_live_reduction_stays_whole():
    s = Sample()
    one, other = Value(I32), Value(I32)
    with s.inside(Block((one, other))) as body:
        s.add(Yield(values=(s.sum(one, other),)))
    loaded = s.load(s.view("x"), s.index(0))
    identity = IntIdentity(Element.I32, 0)
    total = s.add(Reduce(sources=(loaded,), dim=0, identities=(identity,), body=body)).totals[0]
    keep(s, total)
    function = s.done()
    assert mnemonics(drop_dead_code(function)) == mnemonics(function)


def test_dropping_twice_changes_nothing():
    s = Sample()
    used, _ = counted(s, (s.index(5), s.index(7)), lambda k, a, b: (s.sum(a, k), b))
    keep(s, used)
    once = drop_dead_code(s.done())
    assert text(drop_dead_code(once)) == text(once)
    assert len(only(once, StoreView)) == 1
    assert not only(once, LoadView)


@settings(max_examples=60, deadline=None)
@given(
    wiring=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=3, max_size=3),
    wanted=st.lists(st.integers(0, 2), max_size=3),
    condition=st.integers(0, 1),
)
def test_pruning_keeps_the_meaning(wiring, wanted, condition):
    """Three carried values, each the sum of two of (counter, a, b, c), some of them used."""
    s = Sample()
    inits = tuple(map(s.index, (1, 2, 3)))

    def build(*values):
        sums = tuple(s.sum(values[i], values[j]) for i, j in wiring)
        s.choose(s.scalar("c"), lambda: Continue(values=tuple(reversed(sums))))
        return sums

    results = counted(s, inits, build)
    for place in wanted:
        keep(s, results[place])
    function = s.done()
    pruned = drop_dead_code(function)
    assert stored_at(pruned, c=condition) == stored_at(function, c=condition)
    if not wanted:
        assert not only(pruned, AddI)
