"""Counted loops that end early become loops that count; all others stay as they are."""

import pytest
from block_interpreter import World, run
from ir_samples import I32, Sample, mnemonics

from tilewright.ir.attributes import Predicate, Signedness
from tilewright.ir.function import Module
from tilewright.ir.launch_terms import Blocks, Extent, ScalarArgument
from tilewright.ir.op import Block, Value
from tilewright.ir.ops.control import Break, Continue, For, If, Return, Yield
from tilewright.ir.ops.elementwise import CmpI
from tilewright.ir.verify.verifier import verify
from tilewright.passes.bind_arguments import bind_arguments
from tilewright.passes.drop_dead_code import drop_dead_code
from tilewright.passes.lower_exits import lower_exits
from tilewright.passes.lower_walks import lower_walks


def leave_if(s, jump, left, right, sign=Signedness.SIGNED):
    """`if left == right: jump`."""
    compare = CmpI(
        lhs=left, rhs=right, comparison_predicate=Predicate.EQUAL, signedness=sign
    )  # fmt: skip
    then, other = Block((), [jump]), Block((), [Yield()])
    s.add(If(condition=s.add(compare).result, then_body=then, else_body=other))


def counted(s, lower, upper, step, build):
    """A counted loop that carries a sum; `build` is given the counter, the sum and the next."""
    counter, total = Value(I32), Value(I32)
    with s.inside(Block((counter, total))) as body:
        after = s.sum(total, counter)
        build(counter, total, after)
        s.add(Continue(values=(after,)))
    loop = For(
        lower_bound=lower, upper_bound=upper, step=step, init_values=(s.index(100),), body=body
    )  # fmt: skip
    return s.add(loop).result_values[0]


def places(function, **scalars):
    terms = {Extent("z", 0): 4000, Blocks(): 1}
    terms.update({ScalarArgument(name): value for name, value in scalars.items()})
    return [access.index[0] for access in run(function, World(terms)).accesses]


@pytest.mark.parametrize("stop", [-1, 0, 2, 4, 9])
@pytest.mark.parametrize("jump", ["break", "return", "continue"])
def test_the_same_tiles_are_stored(jump, stop):
    s = Sample()
    z, last = s.view("z"), s.scalar("last")

    def build(counter, total, after):
        jumps = {"break": Break(values=(total,)), "return": Return()}
        leave_if(s, jumps.get(jump) or Continue(values=(total,)), counter, last)
        s.store(s.tile(1), z, after)

    s.store(s.tile(2), z, counted(s, s.index(0), s.index(6), s.index(2), build))
    before = s.done()
    after = lower_exits(before)
    assert places(after, last=stop) == places(before, last=stop)
    assert ("for" in mnemonics(after)) == (jump == "continue")
    verify(Module((bind_arguments(after, s.arguments()),)))


def test_only_the_loops_that_end_early_are_changed():
    s = Sample()
    z, last = s.view("z"), s.scalar("last")

    def inner(counter, total, after):
        s.store(s.tile(1), z, after)

    def outer(counter, total, after):
        counted(s, s.index(0), s.index(2), s.index(1), inner)
        leave_if(s, Break(values=(after,)), counter, last)

    s.store(s.tile(2), z, counted(s, s.index(0), s.index(4), s.index(1), outer))
    before = s.done()
    after = lower_exits(before)
    assert mnemonics(after).count("for") == 1
    assert mnemonics(after).count("loop") == 1
    assert places(after, last=1) == places(before, last=1)
    assert lower_exits(after) is after


def test_a_return_ends_all_loops_around_it():
    s = Sample()
    z, last = s.view("z"), s.scalar("last")

    def inner(counter, total, after):
        leave_if(s, Return(), counter, last)
        s.store(s.tile(1), z, after)

    def outer(counter, total, after):
        counted(s, s.index(0), s.index(2), s.index(1), inner)

    counted(s, s.index(0), s.index(4), s.index(1), outer)
    before = s.done()
    after = lower_exits(before)
    assert "for" not in mnemonics(after)
    for last_turn in (0, 1, 7):
        assert places(after, last=last_turn) == places(before, last=last_turn)
    verify(Module((bind_arguments(after, s.arguments()),)))


def test_a_walk_that_ends_early():
    s = Sample()
    z, last = s.view("z"), s.scalar("last")
    with s.walk(s.index(5)) as (place,):
        leave_if(s, Break(), place, last)
        s.store(s.tile(1), z, place)
    before = s.done()
    after = lower_exits(lower_walks(before))
    for last_turn in (0, 3, 9):
        assert places(after, last=last_turn) == places(before, last=last_turn)
    verify(Module((bind_arguments(after, s.arguments()),)))


def test_what_a_break_hands_on_is_needed():
    s = Sample()
    z, last = s.view("z"), s.scalar("last")

    def build(counter, total, after):
        leave_if(s, Break(values=(s.sum(counter, counter),)), counter, last)

    s.store(s.tile(2), z, counted(s, s.index(0), s.index(4), s.index(1), build))
    before = s.done()
    kept = drop_dead_code(before)
    for last_turn in (2, 9):
        assert places(lower_exits(kept), last=last_turn) == places(before, last=last_turn)
