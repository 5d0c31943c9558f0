"""What is equal in all blocks, and its nearest neighbour that is not."""

from __future__ import annotations

import pytest

from tilewright.analysis.uniformity import find_uniform
from tilewright.dtypes import Element
from tilewright.ir.attributes import AtomicMode, Predicate
from tilewright.ir.builder import Builder
from tilewright.ir.function import Function
from tilewright.ir.launch_terms import BaseAddress, ScalarArgument
from tilewright.ir.op import Block, Op, Value
from tilewright.ir.ops.control import Break, Continue, For, If, Loop, Return, Yield
from tilewright.ir.ops.elementwise import AddI, CmpI
from tilewright.ir.ops.internal import BlockIndex, LaunchValue, Walk
from tilewright.ir.ops.memory import AtomicRmw, LoadPtr, Offset, StorePtr
from tilewright.ir.types import PtrType, scalar

I32 = scalar(Element.I32)
POINTER = scalar(PtrType(Element.I32))


class Kernel:
    """A kernel with a place in the grid, a scalar and pointers."""

    def __init__(self) -> None:
        self.builder = Builder(Block())
        self.body = self.builder.block
        self.count = self.builder.index(8)
        (self.place,) = self.add(BlockIndex(counts=(self.count,))).results
        self.scalar = self.add(LaunchValue(term=ScalarArgument("n"), to=I32)).result

    def add(self, op: Op) -> Op:
        return self.builder.add(op)

    def pointer(self, name: str) -> Value:
        return self.add(LaunchValue(term=BaseAddress(name), to=POINTER)).result

    def sum(self, left: Value, right: Value) -> Value:
        return self.add(AddI(lhs=left, rhs=right)).result

    def load(self, pointer: Value, index: Value) -> Value:
        moved = self.add(Offset(ptr=pointer, offset=index)).result
        return self.add(LoadPtr(source=moved)).result

    def less(self, left: Value, right: Value) -> Value:
        op = CmpI(lhs=left, rhs=right, comparison_predicate=Predicate.LESS_THAN)
        return self.add(op).result

    def choose(self, condition: Value, then: Value, other: Value) -> Value:
        blocks = [Block((), [Yield(values=(value,))]) for value in (then, other)]
        op = If(condition=condition, then_body=blocks[0], else_body=blocks[1], types=(I32,))
        return self.add(op).results[0]

    def leave_if(self, condition: Value, leaving: Op) -> None:
        then, other = Block((), [leaving]), Block((), [Yield()])
        self.add(If(condition=condition, then_body=then, else_body=other))

    def found(self, outputs: tuple[str, ...] = ()):
        self.add(Return())
        return find_uniform(Function("kernel", self.body), outputs)


def test_constants_and_launch_values_are_equal_and_places_are_not():
    kernel = Kernel()
    equal = kernel.sum(kernel.count, kernel.scalar)
    differing = kernel.sum(equal, kernel.place)
    found = kernel.found()
    assert found.is_uniform(equal)
    assert not found.is_uniform(kernel.place)
    assert not found.is_uniform(differing)


def test_loads_from_what_nobody_writes_at_equal_places():
    kernel = Kernel()
    pointer = kernel.pointer("x")
    equal, differing = kernel.load(pointer, kernel.scalar), kernel.load(pointer, kernel.place)
    found = kernel.found()
    assert found.is_uniform(equal)
    assert not found.is_uniform(differing)


def test_loads_from_what_the_kernel_writes():
    kernel = Kernel()
    pointer, other = kernel.pointer("z"), kernel.pointer("x")
    loaded, safe = kernel.load(pointer, kernel.scalar), kernel.load(other, kernel.scalar)
    kernel.add(StorePtr(destination=pointer, value=kernel.scalar))
    found = kernel.found()
    assert not found.is_uniform(loaded)
    assert found.is_uniform(safe)


def test_loads_from_an_output_that_is_only_declared():
    kernel = Kernel()
    loaded = kernel.load(kernel.pointer("z"), kernel.scalar)
    assert not kernel.found(("z",)).is_uniform(loaded)


def test_a_write_to_an_unknown_place_may_be_anywhere():
    kernel = Kernel()
    loaded = kernel.load(kernel.pointer("x"), kernel.scalar)
    kernel.add(StorePtr(destination=Value(POINTER), value=kernel.scalar))
    assert not kernel.found().is_uniform(loaded)


def test_atomics_give_every_block_another_value():
    kernel = Kernel()
    op = AtomicRmw(pointers=kernel.pointer("n"), arg=kernel.scalar, mode=AtomicMode.ADD)
    before = kernel.add(op).result
    assert not kernel.found().is_uniform(before)


def test_a_choice_by_an_equal_condition_and_by_another():
    kernel = Kernel()
    same = kernel.less(kernel.scalar, kernel.count)
    other = kernel.less(kernel.place, kernel.count)
    equal = kernel.choose(same, kernel.scalar, kernel.count)
    mixed = kernel.choose(same, kernel.scalar, kernel.place)
    differing = kernel.choose(other, kernel.scalar, kernel.count)
    found = kernel.found()
    assert found.is_uniform(equal)
    assert not found.is_uniform(mixed)
    assert not found.is_uniform(differing)


def loop(kernel: Kernel, upper: Value, step: Value, leave: Op | None = None, when=None) -> For:
    """`for k in range(upper): total += step`, perhaps left early."""
    counter, total = Value(I32), Value(I32)
    body = Block((counter, total))
    with kernel.builder.inside(body):
        if leave is not None:
            kernel.leave_if(when, leave)
        kernel.add(Continue(values=(kernel.sum(total, step),)))
    zero, one = kernel.builder.index(0), kernel.builder.index(1)
    bounds = {"lower_bound": zero, "upper_bound": upper, "step": one}
    return kernel.add(For(**bounds, init_values=(zero,), body=body))


def test_loops_over_equal_and_over_differing_ranges():
    kernel = Kernel()
    equal = loop(kernel, kernel.scalar, kernel.scalar)
    by_data = loop(kernel, kernel.scalar, kernel.place)
    by_range = loop(kernel, kernel.place, kernel.scalar)
    found = kernel.found()
    assert found.is_uniform(equal.results[0])
    assert found.is_uniform(equal.body.args[0])
    assert found.is_reached_alike(equal.body.ops[0])
    assert not found.is_uniform(by_data.body.args[1])
    assert not found.is_uniform(by_data.results[0])
    assert not found.is_uniform(by_range.results[0])
    assert not found.is_reached_alike(by_range.body.ops[0])


@pytest.mark.parametrize("leaving", [Break, Continue])
def test_a_loop_that_some_blocks_leave_early(leaving):
    for differs in (True, False):
        kernel = Kernel()
        when = kernel.less(kernel.place if differs else kernel.scalar, kernel.count)
        leave = leaving(values=(kernel.scalar,))
        left = loop(kernel, kernel.scalar, kernel.scalar, leave, when)
        after = kernel.add(AddI(lhs=kernel.scalar, rhs=kernel.scalar))
        found = kernel.found()
        assert found.is_uniform(left.results[0]) is not differs
        assert found.is_reached_alike(left.body.ops[1]) is not differs
        # What stands before is reached by all, until the next turn.
        comes_again = not (differs and leaving is Break)
        assert found.is_reached_alike(left.body.ops[0]) is comes_again
        assert found.is_reached_alike(after)


def test_a_block_that_returns_early_is_missed_by_everything_behind():
    kernel = Kernel()
    when = kernel.less(kernel.place, kernel.count)
    loop(kernel, kernel.scalar, kernel.scalar, Return(), when)
    after = kernel.add(AddI(lhs=kernel.scalar, rhs=kernel.scalar))
    found = kernel.found()
    assert not found.is_reached_alike(after)
    assert found.is_uniform(after.result)


def test_a_walk_is_different_for_every_block():
    kernel = Kernel()
    place, total = Value(I32), Value(I32)
    body = Block((place, total))
    with kernel.builder.inside(body):
        inside = kernel.sum(kernel.scalar, kernel.scalar)
        kernel.add(Continue(values=(inside,)))
    walk = kernel.add(
        Walk(counts=(kernel.count,), init_values=(kernel.scalar,), outputs=("z",), body=body)
    )
    found = kernel.found()
    assert not found.is_uniform(place)
    assert not found.is_uniform(walk.results[0])
    assert found.is_uniform(inside)


def test_turns_of_walks_do_not_count_but_what_they_leave_does():
    kernel = Kernel()
    walks = []
    for leaving in (None, Return()):
        place = Value(I32)
        with kernel.builder.inside(Block((place,))) as body:
            inner = kernel.sum(place, kernel.scalar)
            if leaving is not None:
                kernel.leave_if(kernel.less(kernel.scalar, kernel.count), leaving)
            kernel.add(Continue())
        walks.append(kernel.add(Walk(counts=(kernel.count,), outputs=("z",), body=body)))
        after = kernel.add(AddI(lhs=kernel.scalar, rhs=kernel.scalar))
        walks.append(after)
    found = kernel.found()
    assert [found.is_reached_alike(op) for op in walks] == [True, True, True, False]
    assert found.is_reached_alike(walks[0].body.ops[0])
    assert not found.is_uniform(inner)


def test_an_endless_loop_gives_what_its_breaks_hand_out():
    for differs in (True, False):
        kernel = Kernel()
        body = Block((Value(I32),))
        with kernel.builder.inside(body):
            when = kernel.less(body.args[0], kernel.scalar)
            out = kernel.place if differs else kernel.count
            kernel.leave_if(when, Break(values=(out,)))
            kernel.add(Continue(values=(kernel.sum(body.args[0], kernel.scalar),)))
        op = kernel.add(Loop(init_values=(kernel.scalar,), body=body, types=(I32,)))
        assert kernel.found().is_uniform(op.results[0]) is not differs
