"""No `return` stays in a loop, and what a kernel stores is the same."""

import pytest
from block_interpreter import World, run
from ir_samples import I32, Sample

from tilewright.dtypes import Element
from tilewright.ir.attributes import Predicate, Signedness
from tilewright.ir.launch_terms import Blocks, Extent, ScalarArgument
from tilewright.ir.op import Block, Value
from tilewright.ir.ops.addresses import IntToPtr
from tilewright.ir.ops.control import Break, Continue, If, Loop, Return, Yield
from tilewright.ir.ops.elementwise import CmpI
from tilewright.ir.ops.memory import MakeToken
from tilewright.ir.ops.shape import Constant
from tilewright.ir.types import TOKEN, PtrType, scalar
from tilewright.passes.lower_returns import lower_returns


def equal(s, left, right):
    compare = CmpI(
        lhs=left, rhs=right, comparison_predicate=Predicate.EQUAL, signedness=Signedness.SIGNED
    )
    return s.add(compare).result


def leave_if(s, jump, left, right):
    then, other = Block((), [jump]), Block((), [Yield()])
    s.add(If(condition=equal(s, left, right), then_body=then, else_body=other))


def counting(s, build, result=I32):
    """An endless loop that counts from 0; `build` is given the counter and the next one."""
    counter = Value(I32)
    with s.inside(Block((counter,))) as body:
        after = s.sum(counter, s.index(1))
        build(counter, after)
        s.add(Continue(values=(after,)))
    loop = Loop(init_values=(s.index(0),), body=body, types=(result,))
    return s.add(loop).result_values[0]


def in_branch(s, condition, build):
    with s.inside(Block()) as then_body:
        build()
        s.add(Yield())
    s.add(If(condition=condition, then_body=then_body, else_body=Block((), [Yield()])))


def places(function, **scalars):
    terms = {Extent("z", 0): 4000, Blocks(): 1}
    terms.update({ScalarArgument(name): value for name, value in scalars.items()})
    return [access.index[0] for access in run(function, World(terms)).accesses]


def returns_in_loops(function):
    loops = (op for op in function.walk() if isinstance(op, Loop))
    return [op for loop in loops for op in loop.walk() if isinstance(op, Return)]


def loop_in_branch():
    """Store each count, return at `over`, break at `last`, store 100 more behind."""
    s = Sample()
    z, over, last, zero = s.view("z"), s.scalar("over"), s.scalar("last"), s.index(0)

    def count(counter, after):
        leave_if(s, Return(), counter, over)
        leave_if(s, Break(values=(counter,)), counter, last)
        s.store(s.tile(1), z, counter)

    def build():
        found = counting(s, count)
        s.store(s.tile(2), z, s.sum(found, s.index(100)))

    in_branch(s, equal(s, zero, zero), build)
    s.store(s.tile(3), z, s.index(300))
    return s.done()


def loop_in_loop():
    """The inner loop breaks at `last` and returns at `over` when the outer one is in turn 1."""
    s = Sample()
    z, over, last, one = s.view("z"), s.scalar("over"), s.scalar("last"), s.index(1)

    def outer(turn, after):
        def inner(counter, _):
            in_branch(s, equal(s, turn, one), lambda: leave_if(s, Return(), counter, over))
            leave_if(s, Break(values=(counter,)), counter, last)
            s.store(s.tile(1), z, counter)

        leave_if(s, Break(values=(turn,)), turn, s.index(3))
        s.store(s.tile(2), z, s.sum(counting(s, inner), s.index(100)))

    s.store(s.tile(3), z, s.sum(counting(s, outer), s.index(200)))
    return s.done()


@pytest.mark.parametrize("over", [-1, 0, 2, 5])
@pytest.mark.parametrize("last", [0, 3])
@pytest.mark.parametrize("program", [loop_in_branch, loop_in_loop])
def test_the_same_tiles_are_stored(program, last, over):
    before = program()
    after = lower_returns(before)
    assert returns_in_loops(before)
    assert not returns_in_loops(after)
    assert places(after, over=over, last=last) == places(before, over=over, last=last)


def test_what_needs_no_change_is_given_back():
    s = Sample()
    z, last = s.view("z"), s.scalar("last")
    leave_if(s, Return(), last, s.index(7))
    found = counting(s, lambda now, _: leave_if(s, Break(values=(now,)), now, last))
    s.store(s.tile(1), z, found)
    function = s.done()
    assert lower_returns(function) is function


@pytest.mark.parametrize(
    ("result", "made_by"),
    [(TOKEN, MakeToken), (scalar(PtrType(Element.F32)), IntToPtr), (I32, Constant)],
    ids=["token", "pointer", "number"],
)
def test_a_loop_left_for_good_gives_something_of_each_type(result, made_by):
    s = Sample()
    over = s.scalar("over")
    counting(s, lambda now, _: leave_if(s, Return(), now, over), result)
    (loop,) = (op for op in lower_returns(s.done()).walk() if isinstance(op, Loop))
    (left,) = (op for op in loop.walk() if isinstance(op, Break))
    makers = {op.results[0]: type(op) for op in loop.walk() if op.results}
    assert makers[left.values[0]] is made_by
    assert [value.type for value in left.values] == [result, scalar(Element.I1)]
