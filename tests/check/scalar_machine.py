"""Runs the scalar part of a kernel the way a GPU would: 32-bit numbers that wrap, block by block.

It is the judge of the analysis, so it shares nothing with it. Long loops are cut to their first and
last turns; a loop that carries values is run from its start, and `Exhausted` ends a run that takes
too long, which leaves a genuine beginning of an execution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product

from tilewright.dtypes import Element
from tilewright.ir.attributes import Predicate
from tilewright.ir.function import Function
from tilewright.ir.launch_terms import Extent, LaunchTerm, TileCount
from tilewright.ir.op import Block, Op, Value
from tilewright.ir.ops.control import Break, Continue, For, If, Loop, Return, Yield
from tilewright.ir.ops.elementwise import (
    AbsI,
    AddI,
    AndI,
    CmpI,
    MaxI,
    MinI,
    MulI,
    NegI,
    OrI,
    Select,
    ShLI,
    ShRI,
    SubI,
    XOrI,
)
from tilewright.ir.ops.internal import (
    BlockIndex,
    BoundsCheck,
    DivisorCheck,
    FloorDiv,
    FloorMod,
    LaunchValue,
    Require,
    StepCheck,
    Walk,
)
from tilewright.ir.ops.memory import LoadPtr
from tilewright.ir.ops.shape import Constant


class Exhausted(Exception):
    """The run was cut short; everything before is genuine."""


def wrapped(value: int, bits: int = 32) -> int:
    return (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


def launch_number(environment: Mapping[LaunchTerm, int], term: LaunchTerm) -> int:
    if isinstance(term, TileCount):
        return -(-environment[Extent(term.param, term.axis)] // term.tile)
    return environment[term]


def few(count: int) -> list[int]:
    """The numbers below a count, or some from both ends."""
    return list(range(count)) if count <= 6 else [0, 1, 2, count - 2, count - 1]


COMPARISONS: dict[Predicate, Callable[[int, int], bool]] = {
    Predicate.EQUAL: lambda a, b: a == b,
    Predicate.NOT_EQUAL: lambda a, b: a != b,
    Predicate.LESS_THAN: lambda a, b: a < b,
    Predicate.LESS_THAN_OR_EQUAL: lambda a, b: a <= b,
    Predicate.GREATER_THAN: lambda a, b: a > b,
    Predicate.GREATER_THAN_OR_EQUAL: lambda a, b: a >= b,
}
ARITHMETIC: dict[type[Op], Callable[[int, int], int]] = {
    AddI: lambda a, b: a + b,
    SubI: lambda a, b: a - b,
    MulI: lambda a, b: a * b,
    MinI: min,
    MaxI: max,
    FloorDiv: lambda a, b: a // b,
    FloorMod: lambda a, b: a % b,
    AndI: lambda a, b: a & b,
    OrI: lambda a, b: a | b,
    XOrI: lambda a, b: a ^ b,
    ShLI: lambda a, b: a << b,
    ShRI: lambda a, b: a >> b,
}


class Machine:
    """One launch. `observe(op, machine)` is called after every op."""

    def __init__(
        self,
        environment: Mapping[LaunchTerm, int],
        memory: Iterable[int],
        observe: Callable[[Op | Block, Machine], None],
        steps: int = 4000,
    ) -> None:
        self.environment = environment
        self.memory = memory
        self.observe = observe
        self.steps = steps
        self.values: dict[Value, int] = {}

    def run(self, function: Function) -> bool:
        """Run every block, or some from all corners of the grid; whether all ran to the end."""
        complete = True
        for block in self._blocks(function):
            self.values = {}
            self._block_index = block
            self._loaded = iter(self.memory)
            try:
                self._run(function.body)
            except Exhausted:
                complete = False
        return complete

    def _blocks(self, function: Function) -> Iterator[tuple[int, ...]]:
        grids = [op for op in function.body.ops if isinstance(op, BlockIndex)]
        if not grids:
            return iter([()])
        counts = [self._constant(function, value) for value in grids[0].counts]
        return product(*(few(count) for count in counts))

    def _constant(self, function: Function, value: Value) -> int:
        for op in function.body.ops:
            if value in op.results:
                if isinstance(op, Constant):
                    return int(op.value)
                assert isinstance(op, LaunchValue)
                return launch_number(self.environment, op.term)
        raise AssertionError

    def _run(self, block: Block) -> Op:
        for op in block.ops:
            self.steps -= 1
            if self.steps < 0:
                raise Exhausted
            if isinstance(op, Return | Yield | Continue | Break):
                return op
            left = self._step(op)
            self.observe(op, self)
            if left is not None:
                return left
        raise AssertionError("a block without an end")

    def _step(self, op: Op) -> Op | None:
        """Run one op; a terminator if it leaves the block."""
        values = self.values
        rule = RULES.get(type(op))
        if rule is not None:
            return rule(self, op)
        left, right = (values[operand] for operand in op.operands)
        values[op.results[0]] = wrapped(ARITHMETIC[type(op)](left, right), self._bits(op))
        return None

    def _bits(self, op: Op) -> int:
        # A truth value is read as 0 or 1: two bits keep it from becoming -1.
        element = op.results[0].type.element
        return 2 if element is Element.I1 else element.bits

    def turn(self, body: Block, arguments: Iterable[int]) -> Op:
        self.values.update(zip(body.args, arguments, strict=True))
        self.observe(body, self)
        return self._run(body)

    def set_all(self, values: Iterable[Value], numbers: Iterable[int]) -> None:
        self.values.update(zip(values, numbers, strict=True))

    def get(self, values: Iterable[Value]) -> list[int]:
        return [self.values[value] for value in values]


def _for(machine: Machine, op: For) -> Op | None:
    low, high, step = machine.get((op.lower_bound, op.upper_bound, op.step))
    turns = max(0, -(-(high - low) // step))
    carried = machine.get(op.init_values)
    chosen = range(turns) if carried else few(turns)
    for turn in chosen:
        end = machine.turn(op.body, [low + turn * step, *carried])
        if isinstance(end, Return):
            return end
        carried = machine.get(end.values)
        if isinstance(end, Break):
            break
    machine.set_all(op.results, carried)
    return None


def _loop(machine: Machine, op: Loop) -> Op | None:
    carried = machine.get(op.init_values)
    while True:
        end = machine.turn(op.body, carried)
        if isinstance(end, Return):
            return end
        carried = machine.get(end.values)
        if isinstance(end, Break):
            machine.set_all(op.results, carried)
            return None


def _walk(machine: Machine, op: Walk) -> Op | None:
    axes = [(0, count) for count in machine.get(op.counts)]
    for axis, ends in op.ranges.items():
        start, stop = machine.get(ends)
        axes[axis] = max(0, start), min(axes[axis][1], stop)
    places = ([low + n for n in few(max(0, high - low))] for low, high in axes)
    for place in product(*places):
        if isinstance(end := machine.turn(op.body, place), Return):
            return end
    return None


def _if(machine: Machine, op: If) -> Op | None:
    end = machine._run(op.then_body if machine.values[op.condition] else op.else_body)
    if not isinstance(end, Yield):
        return end
    machine.set_all(op.results, machine.get(end.values))
    return None


def _compare(machine: Machine, op: CmpI) -> None:
    left, right = machine.get((op.lhs, op.rhs))
    machine.values[op.result] = int(COMPARISONS[op.comparison_predicate](left, right))


def _select(machine: Machine, op: Select) -> None:
    chosen = op.val_if_true if machine.values[op.cond] else op.val_if_false
    machine.values[op.result] = machine.values[chosen]


def _bounds_check(machine: Machine, op: BoundsCheck) -> None:
    # A check that stays clamps; one that was settled never gets an index that this would change.
    index, count = machine.get((op.index, op.count))
    machine.values[op.result] = min(max(index, 0), max(count - 1, 0))


def _divisor_check(machine: Machine, op: DivisorCheck) -> None:
    machine.values[op.result] = machine.values[op.divisor] or 1


def _load(machine: Machine, op: LoadPtr) -> None:
    machine.values[op.result] = next(machine._loaded)


def _set(read: Callable[[Machine, Op], int]) -> Callable[[Machine, Op], None]:
    def apply(machine: Machine, op: Op) -> None:
        machine.values[op.results[0]] = read(machine, op)

    return apply


RULES: dict[type[Op], Callable[..., Op | None]] = {
    AbsI: _set(lambda machine, op: wrapped(abs(machine.values[op.source]))),
    BlockIndex: lambda machine, op: machine.set_all(op.indices, machine._block_index),
    BoundsCheck: _bounds_check,
    CmpI: _compare,
    Constant: _set(lambda machine, op: int(op.value)),
    DivisorCheck: _divisor_check,
    For: _for,
    If: _if,
    LaunchValue: _set(lambda machine, op: launch_number(machine.environment, op.term)),
    LoadPtr: _load,
    Loop: _loop,
    NegI: _set(lambda machine, op: wrapped(-machine.values[op.source])),
    Require: lambda machine, op: None,
    StepCheck: _set(lambda machine, op: machine.values[op.step]),
    Select: _select,
    Walk: _walk,
}
