"""Builds kernels as IR by hand, in few lines, the way the front end would."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tilewright.dtypes import Element, i32
from tilewright.ir.attributes import Predicate
from tilewright.ir.builder import Builder
from tilewright.ir.check_sites import CheckSite
from tilewright.ir.function import Function
from tilewright.ir.launch_terms import Extent, LaunchTerm, ScalarArgument, TileCount
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
from tilewright.ir.types import PtrType, TileType, scalar
from tilewright.source import Location, SourceFile, Span

SOURCE = SourceFile("kernel.py", tuple(f"line {n}" for n in range(1, 200)))
I32 = scalar(Element.I32)
BINARY = {
    "+": AddI,
    "-": SubI,
    "*": MulI,
    "min": MinI,
    "max": MaxI,
    "//": FloorDiv,
    "%": FloorMod,
    "and": AndI,
    "or": OrI,
    "&": AndI,
    "|": OrI,
    "^": XOrI,
    "<<": ShLI,
    ">>": ShRI,
}
COMPARE = {
    "==": Predicate.EQUAL,
    "!=": Predicate.NOT_EQUAL,
    "<": Predicate.LESS_THAN,
    "<=": Predicate.LESS_THAN_OR_EQUAL,
    ">": Predicate.GREATER_THAN,
    ">=": Predicate.GREATER_THAN_OR_EQUAL,
}


class Sketch:
    """One kernel in the making."""

    def __init__(self) -> None:
        self.builder = Builder(Block())
        self.body = self.builder.block
        self.pointer = Value(scalar(PtrType(Element.I32)))
        self._line = 0

    def add(self, op: Op) -> Op:
        self._line += 1
        self.builder.loc = Location(Span(SOURCE, self._line, 4, self._line, 8))
        return self.builder.add(op)

    def value(self, value: Value | int) -> Value:
        if isinstance(value, Value):
            return value
        from tilewright.ir.ops.shape import Constant

        return self.add(Constant(value=value, to=I32)).result

    def known(self, term: LaunchTerm) -> Value:
        return self.add(LaunchValue(term=term, to=I32)).result

    def extent(self, param: str, axis: int = 0) -> Value:
        return self.known(Extent(param, axis))

    def tiles(self, param: str, axis: int = 0, tile: int = 64) -> Value:
        return self.known(TileCount(param, axis, tile))

    def scalar(self, name: str) -> Value:
        return self.known(ScalarArgument(name))

    def loaded(self, name: str = "") -> Value:
        value = self.add(LoadPtr(source=self.pointer, dtype=i32)).result
        value.hint = name
        return value

    def block_index(self, *counts: Value | int) -> tuple[Value, ...]:
        indices = self.add(BlockIndex(counts=tuple(map(self.value, counts)))).indices
        for axis, index in enumerate(indices):
            index.hint = "ijk"[axis]
        return indices

    def math(self, symbol: str, left: Value | int, right: Value | int) -> Value:
        left, right = self.value(left), self.value(right)
        return self.add(BINARY[symbol](lhs=left, rhs=right)).result

    def divide(self, symbol: str, left: Value | int, right: Value | int) -> Value:
        """`//` or `%` with the check of the divisor that the front end puts before it."""
        divisor = self.add(DivisorCheck(divisor=self.value(right))).result
        return self.math(symbol, left, divisor)

    def negative(self, value: Value) -> Value:
        return self.add(NegI(source=value)).result

    def magnitude(self, value: Value) -> Value:
        return self.add(AbsI(source=value)).result

    def step(self, value: Value) -> Value:
        """A number above zero for a loop to count by."""
        return self.add(StepCheck(step=value)).result

    def compare(self, left: Value | int, symbol: str, right: Value | int) -> Value:
        left, right = self.value(left), self.value(right)
        return self.add(CmpI(lhs=left, rhs=right, comparison_predicate=COMPARE[symbol])).result

    def select(self, condition: Value, then: Value | int, other: Value | int) -> Value:
        then, other = self.value(then), self.value(other)
        return self.add(Select(cond=condition, val_if_true=then, val_if_false=other)).result

    def check(
        self, index: Value | int, count: Value | int, subject: str = "x", axis: int = 0
    ) -> Value:
        site = CheckSite(subject, axis, 64)
        op = BoundsCheck(index=self.value(index), count=self.value(count), site=site)
        return self.add(op).result

    def require(self, condition: Value, text: str = "...") -> None:
        self.add(Require(condition=condition, text=text))

    @contextmanager
    def loop(
        self, low: Value | int, high: Value | int, step: Value | int = 1, name: str = "k"
    ) -> Iterator[Value]:
        with self.carrying_loop(low, high, (), step, name) as (counter, _, carry):
            yield counter
            carry()

    @contextmanager
    def carrying_loop(self, low, high, inits, step=1, name="k"):
        counter = Value(I32, None, name)
        inits = tuple(map(self.value, inits))
        arguments = tuple(Value(init.type) for init in inits)
        body = Block((counter, *arguments))
        bounds = [self.value(end) for end in (low, high, step)]

        def carry(*values: Value) -> None:
            self.add(Continue(values=values))

        with self.builder.inside(body):
            yield counter, arguments, carry
        self.last = self.add(
            For(
                lower_bound=bounds[0],
                upper_bound=bounds[1],
                step=bounds[2],
                init_values=inits,
                body=body,
            )
        )

    @contextmanager
    def endless(self, inits, results=()):
        """A `while`: give `(arguments, carry, leave)`."""
        inits = tuple(map(self.value, inits))
        body = Block(tuple(Value(init.type) for init in inits))
        with self.builder.inside(body):
            yield (
                body.args,
                lambda *values: self.add(Continue(values=values)),
                lambda *values: self.add(Break(values=values)),
            )
        self.last = self.add(Loop(init_values=inits, body=body, types=tuple(results)))

    @contextmanager
    def walk(
        self, *counts: Value, within: dict[int, tuple[Value, Value]] | None = None
    ) -> Iterator[tuple[Value, ...]]:
        ranges = within or {}
        body = Block(tuple(Value(I32, None, "ijk"[axis]) for axis in range(len(counts))))
        with self.builder.inside(body):
            yield body.args
            self.add(Continue())
        self.add(
            Walk(
                counts=counts,
                ranged=tuple(ranges),
                starts=tuple(start for start, _ in ranges.values()),
                stops=tuple(stop for _, stop in ranges.values()),
                outputs=("z",),
                body=body,
            )
        )

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """`if condition:` with no else."""
        then, other = Block(), Block()
        with self.builder.inside(then):
            yield
            self.add(Yield())
        other.ops.append(Yield())
        self.add(If(condition=condition, then_body=then, else_body=other))

    def leave_when(self, condition: Value, leaving: Op) -> None:
        """`if condition: return` (or continue, or break)."""
        then, other = Block(), Block()
        then.ops.append(leaving)
        other.ops.append(Yield())
        self.add(If(condition=condition, then_body=then, else_body=other))

    def either(self, condition: Value, then_value, else_value) -> Value:
        """`a if condition else b` as a statement; arms are values or functions that build."""
        blocks = []
        for arm in (then_value, else_value):
            block = Block()
            with self.builder.inside(block):
                value = self.value(arm() if callable(arm) else arm)
                self.add(Yield(values=(value,)))
            blocks.append(block)
        types: tuple[TileType, ...] = (I32,)
        return self.add(
            If(condition=condition, then_body=blocks[0], else_body=blocks[1], types=types)
        ).results[0]

    def function(self) -> Function:
        self.add(Return())
        return Function("kernel", self.body)
