"""Control flow that is left early: random nests of loops and branches against Python's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from cpu_programs import I32, Program
from hypothesis import given
from hypothesis import strategies as st

from tilewright.backends.cpu.memory import KernelMemory
from tilewright.dtypes import Element
from tilewright.errors import CompileError
from tilewright.ir.attributes import Predicate
from tilewright.ir.op import Block, Value
from tilewright.ir.ops.control import Break, Continue, For, If, Loop, Return, Yield
from tilewright.ir.ops.elementwise import AddI, AndI, CmpI, SubI, XOrI
from tilewright.ir.ops.memory import StorePtr
from tilewright.ir.types import PtrType

MARK = 0x5555  # what a block that returns early leaves on its number


@dataclass(frozen=True)
class Add:
    """acc += by"""

    by: int


@dataclass(frozen=True)
class Branch:
    """if acc & mask: … else: …, each with a way out or none."""

    mask: int
    bodies: tuple[tuple[Any, ...], tuple[Any, ...]]
    exits: tuple[str, str]


@dataclass(frozen=True)
class Repeat:
    """A body several times: a counted loop, or an endless one that breaks when its fuel is gone."""

    times: int
    counted: bool
    body: tuple[Any, ...]


# --- what Python says ------------------------------------------------------------------------


class _Left(Exception):
    def __init__(self, way: str, acc: int) -> None:
        self.way, self.acc = way, acc


def expected(nodes: tuple[Any, ...], acc: int) -> int:
    for node in nodes:
        if isinstance(node, Add):
            acc = (acc + node.by + 2**31) % 2**32 - 2**31
        elif isinstance(node, Branch):
            side = 0 if acc & node.mask else 1
            acc = expected(node.bodies[side], acc)
            if node.exits[side]:
                raise _Left(node.exits[side], acc)
        else:
            acc = repeated(node, acc)
    return acc


def repeated(node: Repeat, acc: int) -> int:
    for _ in range(node.times):
        try:
            acc = expected(node.body, acc)
        except _Left as left:
            if left.way == "return":
                raise
            acc = left.acc
            if left.way == "break":
                break
    return acc


# --- the same as Tile IR ---------------------------------------------------------------------


@dataclass
class Writer:
    """Writes nodes; `carried` is what the loop around hands on beside the number."""

    program: Program
    out: Value
    carried: tuple[Value, ...] | None = None  # the fuel of an endless loop

    def number(self, value: int) -> Value:
        return self.program.b.constant(value, Element.I32)

    def write(self, nodes: tuple[Any, ...], acc: Value) -> Value:
        for node in nodes:
            if isinstance(node, Add):
                acc = self.program.add(AddI(lhs=acc, rhs=self.number(node.by)))
            elif isinstance(node, Branch):
                acc = self.branch(node, acc)
            else:
                acc = self.counted(node, acc) if node.counted else self.endless(node, acc)
        return acc

    def branch(self, node: Branch, acc: Value) -> Value:
        bits = self.program.add(AndI(lhs=acc, rhs=self.number(node.mask)))
        condition = self.program.add(
            CmpI(lhs=bits, rhs=self.number(0), comparison_predicate=Predicate.NOT_EQUAL)
        )
        blocks = Block(), Block()
        for block, body, way in zip(blocks, node.bodies, node.exits, strict=True):
            with self.program.b.inside(block):
                self.leave(way, self.write(body, acc))
        chosen = If(condition=condition, then_body=blocks[0], else_body=blocks[1], types=(I32,))
        return self.program.add(chosen)

    def leave(self, way: str, acc: Value) -> None:
        b = self.program.b
        if way == "return":
            marked = self.program.add(XOrI(lhs=acc, rhs=self.number(MARK)))
            b.add(StorePtr(destination=self.out, value=marked))
            b.add(Return())
        elif way == "break":
            b.add(Break(values=(acc,)))
        elif way == "continue":
            assert self.carried is not None
            b.add(Continue(values=(acc, *(self.less(fuel) for fuel in self.carried))))
        else:
            b.add(Yield(values=(acc,)))

    def less(self, fuel: Value) -> Value:
        return self.program.add(SubI(lhs=fuel, rhs=self.number(1)))

    def counted(self, node: Repeat, acc: Value) -> Value:
        inner = Value(I32)
        body = Block((Value(I32), inner))
        with self.program.b.inside(body):
            last = Writer(self.program, self.out, ()).write(node.body, inner)
            self.program.b.add(Continue(values=(last,)))
        bounds = [self.number(n) for n in (0, node.times, 1)]
        return self.program.add(
            For(
                lower_bound=bounds[0],
                upper_bound=bounds[1],
                step=bounds[2],
                init_values=(acc,),
                body=body,
            )
        )

    def endless(self, node: Repeat, acc: Value) -> Value:
        inner, fuel = Value(I32), Value(I32)
        body = Block((inner, fuel))
        b = self.program.b
        with b.inside(body):
            empty = self.program.add(
                CmpI(lhs=fuel, rhs=self.number(0), comparison_predicate=Predicate.EQUAL)
            )
            stop, go = Block((), [Break(values=(inner,))]), Block((), [Yield()])
            b.add(If(condition=empty, then_body=stop, else_body=go))
            writer = Writer(self.program, self.out, (fuel,))
            last = writer.write(node.body, inner)
            b.add(Continue(values=(last, self.less(fuel))))
        times = self.number(node.times)
        return self.program.add(Loop(init_values=(acc, times), body=body, types=(I32,)))


def kernel_of(nodes: tuple[Any, ...]) -> Any:
    program = Program("exits")
    out, start = program.param(PtrType(Element.I32)), program.param(Element.I32)
    acc = Writer(program, out).write(nodes, start)
    program.b.add(StorePtr(destination=out, value=acc))
    return program.finish()


def test_nests_that_python_cannot_hold_are_refused():
    nodes: tuple[Any, ...] = (Add(1),)
    for _ in range(19):
        nodes = (Repeat(1, True, nodes),)
    out = np.zeros(1, np.int32)
    kernel_of(nodes).run((1, 1, 1), [out.ctypes.data, 41], [KernelMemory.of(out)])
    assert out[0] == 42
    for _ in range(3):  # Python 3.13 holds 21 loops, those before it 20
        nodes = (Repeat(1, True, nodes),)
    message = r"nests loops or branches deeper than the CPU can run, which has about 20 loops"
    with pytest.raises(CompileError, match=message):
        kernel_of(nodes)


def test_branches_nest_deeper_than_python_is_indented():
    branches: tuple[Any, ...] = (Add(1),)
    for _ in range(400):
        branches = (Branch(1, (branches, (Add(0),)), ("", "")),)
    out = np.zeros(1, np.int32)
    kernel_of(branches).run((1, 1, 1), [out.ctypes.data, 41], [KernelMemory.of(out)])
    assert out[0] == 42


# --- random nests ----------------------------------------------------------------------------

WAYS_OUT = {"for": ["", "continue"], "loop": ["", "continue", "break"], "none": [""]}


@st.composite
def nests(draw: Any, depth: int = 3, loop: str = "none", in_for: bool = False) -> tuple[Any, ...]:
    nodes = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["add", "branch", "repeat"] if depth else ["add"]))
        if kind == "add":
            nodes.append(Add(draw(st.integers(-5, 9))))
        elif kind == "branch":
            ways = WAYS_OUT[loop] + ([] if in_for else ["return"])
            nodes.append(
                Branch(
                    draw(st.integers(1, 7)),
                    (draw(nests(depth - 1, loop, in_for)), draw(nests(depth - 1, loop, in_for))),
                    (draw(st.sampled_from(ways)), draw(st.sampled_from(ways))),
                )
            )
        else:
            counted = draw(st.booleans())
            inner = nests(depth - 1, "for" if counted else "loop", in_for or counted)
            nodes.append(Repeat(draw(st.integers(0, 4)), counted, draw(inner)))
    return tuple(nodes)


@given(nests(), st.lists(st.integers(-100, 100), min_size=3, max_size=3))
def test_any_nest_does_what_python_does(nodes, starts):
    kernel = kernel_of(nodes)
    for start in starts:
        try:
            wanted = expected(nodes, start)
        except _Left as left:
            wanted = left.acc ^ MARK
        for watched in (False, True):
            out = np.zeros(1, np.int32)
            kernel.run(
                (1, 1, 1), [out.ctypes.data, start], [KernelMemory.of(out)], race_check=watched
            )
            assert out[0] == wanted
