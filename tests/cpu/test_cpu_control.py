"""Control flow with carried values, block ids, assertions and threads."""

import threading
from typing import Any

import numpy as np
import pytest
from cpu_programs import I32, Program, gemm, run, softmax, vector_add

from tilewright.dtypes import Element
from tilewright.errors import KernelAssertionError, UndefinedBehaviourError
from tilewright.ir.attributes import Predicate, Signedness
from tilewright.ir.op import Block, Value
from tilewright.ir.ops.control import (
    Assert,
    Break,
    Continue,
    For,
    GetNumTileBlocks,
    If,
    Loop,
    Return,
    Yield,
)
from tilewright.ir.ops.elementwise import AddF, AddI, CmpI, MulI, RemI, SubI
from tilewright.ir.ops.memory import JoinTokens, LoadView, MakeToken, StoreView
from tilewright.ir.ops.shape import Reshape
from tilewright.ir.types import TOKEN, TileType
from tilewright.source import Location, SourceFile, Span

ONE = TileType(Element.I32, (1,))


class ControlProgram(Program):
    """A program that takes i32 scalars and writes i32 scalars."""

    def write(self, value: Value, place: int = 0) -> None:
        if not hasattr(self, "out"):
            self.out = self.partition(self.tensor(Element.I32, 1), (1,))
        tile = self.add(Reshape(source=value, to=ONE))
        self.store(tile, self.out, self.b.index(place))

    def compare(self, lhs: Value, rhs: Value, predicate: Predicate) -> Value:
        return self.add(CmpI(lhs=lhs, rhs=rhs, comparison_predicate=predicate))


def results(program: Program, *numbers: Any, count: int = 1, grid: Any = (1, 1, 1)) -> list[int]:
    """Run; the output comes last."""
    out = np.zeros(count, np.int32)
    run(program.finish(), grid, *numbers, out)
    return out.tolist()


def loop(program, lower, upper, step, init, body_of, **more):
    """A counted loop whose body gives the next carried values."""
    counter, carried = Value(I32), tuple(Value(value.type) for value in init)
    body = Block((counter, *carried))
    with program.b.inside(body):
        program.b.add(Continue(values=tuple(body_of(counter, *carried))))
    op = For(
        lower_bound=lower, upper_bound=upper, step=step, init_values=tuple(init), body=body, **more
    )
    program.b.add(op)
    return op.result_values


@pytest.mark.parametrize(
    ("lower", "upper", "step"), [(0, 10, 1), (3, 20, 4), (5, 5, 1), (9, 2, 1), (-7, 8, 3)]
)
def test_for_counts_and_carries(lower, upper, step):
    program = ControlProgram()
    bounds = [program.param(Element.I32) for _ in range(3)]
    zero = program.b.index(0)

    def body(i, total, turns):
        return program.add(AddI(lhs=total, rhs=i)), program.add(
            AddI(lhs=turns, rhs=program.b.index(1))
        )

    total, turns = loop(program, *bounds, (zero, zero), body)
    program.write(total, 0)
    program.write(turns, 1)
    expected = range(lower, upper, step)
    assert results(program, lower, upper, step, count=2) == [sum(expected), len(expected)]


@pytest.mark.parametrize("step", [0, -1])
def test_a_step_that_is_not_positive_is_reported(step):
    program = ControlProgram()
    given = program.param(Element.I32)
    zero = program.b.index(0)
    (total,) = loop(program, zero, program.b.index(4), given, (zero,), lambda i, t: (t,))
    program.write(total)
    with pytest.raises(UndefinedBehaviourError, match=f"for has the step {step}"):
        results(program, step)


@pytest.mark.parametrize(
    ("lower", "upper", "step", "unsigned"),
    [
        (0, 2**31 - 1, 2, False),
        (2**31 - 3, 2**31 - 1, 3, False),
        (0, -1, 2**30, True),
        (-5, -1, 3, True),
    ],
)
def test_a_counter_that_would_wrap_is_reported(lower, upper, step, unsigned):
    """The machine adds the step once more after the last turn, and goes round."""

    def last(*bounds):
        program = ControlProgram()
        given = [program.param(Element.I32) for _ in range(3)]
        zero = program.b.index(0)
        (found,) = loop(program, *given, (zero,), lambda i, _: (i,), unsigned_cmp=unsigned)
        program.write(found)
        return results(program, *bounds)

    with pytest.raises(UndefinedBehaviourError, match=f"for counts by {step} past"):
        last(lower, upper, step)
    assert last(lower, lower + 1, 1) == [lower]
    assert last(lower, lower, step) == [0]


def test_unsigned_bounds_are_read_as_unsigned():
    program = ControlProgram()
    zero = program.b.index(0)
    lower, upper = program.b.index(2**31 - 2), program.b.index(-(2**31) + 2)

    def body(i, first, turns):
        return i, program.add(AddI(lhs=turns, rhs=program.b.index(1)))

    last, turns = loop(
        program, lower, upper, program.b.index(1), (zero, zero), body, unsigned_cmp=True
    )
    program.write(last, 0)
    program.write(turns, 1)
    assert results(program, count=2) == [-(2**31) + 1, 4]


def test_values_are_carried_all_at_once():
    program = ControlProgram()
    n = program.param(Element.I32)
    zero, one = program.b.index(0), program.b.index(1)

    def fibonacci(i, a, b):
        return b, program.add(AddI(lhs=a, rhs=b))

    a, _ = loop(program, zero, n, one, (zero, one), fibonacci)
    program.write(a)
    assert results(program, 20) == [6765]


def test_loops_nest_and_results_of_the_inner_survive():
    program = ControlProgram()
    zero, one, five = (program.b.index(n) for n in (0, 1, 5))

    def outer(i, total, last):
        (inner,) = loop(
            program, zero, i, one, (zero,), lambda j, s: (program.add(AddI(lhs=s, rhs=j)),)
        )
        return program.add(AddI(lhs=total, rhs=inner)), inner

    total, last = loop(program, zero, five, one, (zero, zero), outer)
    program.write(total, 0)
    program.write(last, 1)
    assert results(program, count=2) == [sum(sum(range(i)) for i in range(5)), 6]


def collatz(program, start):
    """Steps until one: a loop with break and continue under a condition."""
    n, steps = Value(I32), Value(I32)
    body = Block((n, steps))
    one, two = program.b.index(1), program.b.index(2)
    with program.b.inside(body):
        done, go_on = Block(), Block()
        with program.b.inside(done):
            program.b.add(Break(values=(steps,)))
        with program.b.inside(go_on):
            program.b.add(Yield())
        finished = program.compare(n, one, Predicate.EQUAL)
        program.b.add(If(condition=finished, then_body=done, else_body=go_on))
        counted = program.add(AddI(lhs=steps, rhs=one))
        odd, even = Block(), Block()
        with program.b.inside(odd):
            triple = program.add(MulI(lhs=n, rhs=program.b.index(3)))
            program.b.add(Continue(values=(program.add(AddI(lhs=triple, rhs=one)), counted)))
        with program.b.inside(even):
            halves = Value(I32)
            inner = Block((Value(I32), halves))
            with program.b.inside(inner):
                program.b.add(Continue(values=(program.add(SubI(lhs=halves, rhs=one)),)))
            half = For(
                lower_bound=program.b.index(0),
                upper_bound=n,
                step=two,
                init_values=(n,),
                body=inner,
            )
            program.b.add(half)
            program.b.add(Yield(values=half.result_values))
        rest = program.add(RemI(lhs=n, rhs=two))
        is_odd = program.compare(rest, one, Predicate.EQUAL)
        choice = If(condition=is_odd, then_body=odd, else_body=even, types=(I32,))
        program.b.add(choice)
        program.b.add(Continue(values=(choice.result_values[0], counted)))
    op = Loop(init_values=(start, program.b.index(0)), body=body, types=(I32,))
    program.b.add(op)
    return op.result_values[0]


@pytest.mark.parametrize(("start", "steps"), [(1, 0), (6, 8), (27, 111)])
def test_an_endless_loop_is_left_by_break(start, steps):
    program = ControlProgram()
    program.write(collatz(program, program.param(Element.I32)))
    assert results(program, start) == [steps]


@pytest.mark.parametrize("flag", [True, False])
def test_if_gives_the_values_of_the_branch_taken(flag):
    program = ControlProgram()
    condition = program.param(Element.I1)
    then, other = Block(), Block()
    tile = TileType(Element.F32, (4,))
    for block, number in ((then, 2.0), (other, 3.0)):
        with program.b.inside(block):
            thin = program.b.constant(number, Element.F32, (4,))
            program.b.add(Yield(values=(program.b.index(int(number)), thin)))
    choice = If(condition=condition, then_body=then, else_body=other, types=(I32, tile))
    program.b.add(choice)
    number, thin = choice.result_values
    program.write(number)
    target = program.partition(program.tensor(Element.F32, 1), (4,))
    program.store(program.add(AddF(lhs=thin, rhs=thin)), target, program.b.index(0))
    out, tiles = np.zeros(1, np.int32), np.zeros(4, np.float32)
    run(program.finish(), (1, 1, 1), flag, out, tiles)
    assert out.tolist() == [2 if flag else 3]
    assert tiles.tolist() == [4.0 if flag else 6.0] * 4


def test_an_early_return_ends_the_block_only():
    program = ControlProgram()
    limit = program.param(Element.I32)
    out = program.partition(program.tensor(Element.I32, 1), (1,))
    i, _, _ = program.block_id()
    leave, stay = Block(), Block()
    with program.b.inside(leave):
        program.b.add(Return())
    with program.b.inside(stay):
        program.b.add(Yield())
    late = program.compare(i, limit, Predicate.GREATER_THAN_OR_EQUAL)
    program.b.add(If(condition=late, then_body=leave, else_body=stay))
    # Reported only where it is reached: a uniform op behind a return stays where it is.
    rest = program.add(RemI(lhs=program.b.index(7), rhs=limit))
    one = program.add(AddI(lhs=rest, rhs=program.b.index(1)))
    program.store(program.add(Reshape(source=one, to=ONE)), out, i)
    kernel = program.finish()
    found = np.zeros(5, np.int32)
    run(kernel, (5, 1, 1), 3, found)
    assert found.tolist() == [2, 2, 2, 0, 0]
    run(kernel, (5, 1, 1), 0, found)


def test_tokens_are_carried_and_mean_program_order():
    program = Program()
    tensor = program.tensor(Element.F32, 1)
    view = program.partition(tensor, (4,))
    start = program.add(MakeToken())
    i, token = Value(I32), Value(TOKEN)
    body = Block((i, token))
    first = program.b.index(0)
    with program.b.inside(body):
        load = program.b.add(LoadView(view=view, index=(first,), token=token))
        total = program.add(AddF(lhs=load.tile, rhs=program.b.constant(1.0, Element.F32, (4,))))
        joined = program.add(JoinTokens(tokens=(load.result_token, token)))
        stored = program.b.add(StoreView(tile=total, view=view, index=(first,), token=joined))
        program.b.add(Continue(values=(stored.result_token,)))
    program.b.add(
        For(
            lower_bound=first,
            upper_bound=program.b.index(5),
            step=program.b.index(1),
            init_values=(start,),
            body=body,
        )
    )
    data = np.zeros(4, np.float32)
    run(program.finish(), (1, 1, 1), data)
    assert data.tolist() == [5.0] * 4


@pytest.mark.parametrize("grid", [(12, 1, 1), (2, 3, 2), (1, 1, 12), (3, 4, 1)])
def test_every_block_runs_once_and_knows_its_place(grid):
    program = Program()
    out = program.partition(program.tensor(Element.I32, 3), (1, 1, 1))
    x, y, z = program.block_id()
    counts = program.b.add(GetNumTileBlocks())
    number = program.add(MulI(lhs=z, rhs=counts.y))
    number = program.add(MulI(lhs=program.add(AddI(lhs=number, rhs=y)), rhs=counts.x))
    number = program.add(AddI(lhs=program.add(AddI(lhs=number, rhs=x)), rhs=program.b.index(1)))
    tile = program.add(Reshape(source=number, to=TileType(Element.I32, (1, 1, 1))))
    program.store(tile, out, z, y, x)
    kernel = program.finish()
    for threads in (1, 3):
        found = np.zeros(grid[::-1], np.int32)
        run(kernel, grid, found, threads=threads)
        assert found.ravel().tolist() == list(range(1, 13))


# --- assertions ----------------------------------------------------------------------------


def location(line: int) -> Location:
    file = SourceFile("demo.py", tuple(f"line {n}" for n in range(1, 40)))
    return Location(Span(file, line, 4, line, 9), (Span(file, 30, 0, 30, 5),))


def asserting_kernel():
    program = Program("guarded")
    limit = program.param(Element.I32)
    i, _, _ = program.block_id()
    small = program.add(
        CmpI(
            lhs=i, rhs=limit, comparison_predicate=Predicate.LESS_THAN, signedness=Signedness.SIGNED
        )
    )
    program.b.loc = location(12)
    program.b.add(Assert(condition=small, message="the block is too large"))
    program.b.loc = None
    return program.finish()


def test_a_false_assertion_says_what_where_and_which_block():
    kernel = asserting_kernel()
    run(kernel, (4, 1, 1), 4)
    with pytest.raises(KernelAssertionError) as caught:
        run(kernel, (4, 2, 1), 3)
    assert str(caught.value) == (
        "the block is too large\n"
        "  assertion failed in kernel `guarded`, block (3, 0, 0)\n"
        "  at demo.py:12:5\n"
        "  called at demo.py:30:1"
    )


def test_an_assertion_over_a_tile_needs_every_element():
    program = Program()
    tensor = program.tensor(Element.I1, 1)
    tile = program.load(program.partition(tensor, (4,)), program.b.index(0))
    program.b.add(Assert(condition=tile, message="all of them"))
    kernel = program.finish()
    run(kernel, (1, 1, 1), np.ones(4, np.uint8))
    with pytest.raises(KernelAssertionError, match="all of them"):
        run(kernel, (1, 1, 1), np.array([1, 1, 0, 1], np.uint8))


@pytest.mark.parametrize("threads", [1, 4])
def test_the_lowest_failing_block_is_raised_once(threads):
    kernel = asserting_kernel()
    before = set(threading.enumerate())
    with pytest.raises(KernelAssertionError, match="block") as caught:
        run(kernel, (64, 1, 1), 40, threads=threads)
    if threads == 1:
        assert r"block (40, 0, 0)" in str(caught.value)
    left = set(threading.enumerate()) - before
    assert all(thread.name == "tilewright cpu worker" for thread in left)  # idle ones of the pool


# --- threads -------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2, 5, None])
def test_threads_change_nothing(threads):
    rng = np.random.default_rng(5)
    x, y = (rng.standard_normal(1000).astype(np.float32) for _ in range(2))
    z = np.zeros_like(x)
    run(vector_add(16), (63, 1, 1), z, x, y, threads=threads)
    np.testing.assert_array_equal(z, x + y)

    rows = rng.standard_normal((40, 100)).astype(np.float32)
    one, many = np.zeros_like(rows), np.zeros_like(rows)
    run(softmax(128), (40, 1, 1), one, rows, threads=1)
    run(softmax(128), (40, 1, 1), many, rows, threads=threads)
    np.testing.assert_array_equal(one, many)

    a, b = (rng.standard_normal((96, 96)).astype(np.float32) for _ in range(2))
    one, many = np.zeros_like(a), np.zeros_like(a)
    run(gemm(tile=(32, 32, 32)), (9, 1, 1), one, a, b, 3, 3, threads=1)
    run(gemm(tile=(32, 32, 32)), (9, 1, 1), many, a, b, 3, 3, threads=threads)
    np.testing.assert_array_equal(one, many)
