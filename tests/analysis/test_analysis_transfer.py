"""The rule of each op against what a machine does, over narrow types where everything wraps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st
from random_terms import Concrete

from tilewright.analysis.facts import analyse
from tilewright.analysis.intervals import Interval
from tilewright.analysis.terms import Atom, Linear, Variable
from tilewright.dtypes import DType, Element, bool_, i8, i16, u8, u16
from tilewright.ir.attributes import DivBy, Predicate, Rounding, Signedness
from tilewright.ir.builder import Builder
from tilewright.ir.function import Function
from tilewright.ir.launch_terms import ScalarArgument
from tilewright.ir.op import Block, Op, Value
from tilewright.ir.ops.control import Assume, GetNumTileBlocks, GetTileBlockId, If, Return, Yield
from tilewright.ir.ops.elementwise import (
    AbsI,
    AddI,
    AndI,
    CmpI,
    DivI,
    ExtI,
    MaxI,
    MinI,
    MulI,
    NegI,
    OrI,
    RemI,
    Select,
    ShLI,
    ShRI,
    SubI,
    TruncI,
    XOrI,
)
from tilewright.ir.ops.internal import CeilDiv, DivisorCheck, FloorDiv, FloorMod, LaunchValue
from tilewright.ir.ops.shape import Constant
from tilewright.ir.types import scalar

NARROW: list[type[DType]] = [i8, u8]


def read(bits: int, width: int, signed: bool) -> int:
    """What bits mean."""
    bits %= 1 << width
    return bits - (1 << width) if signed and bits >> (width - 1) else bits


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


ROUNDED: dict[Rounding, Callable[[int, int], int]] = {
    Rounding.ZERO: truncated,
    Rounding.NEGATIVE_INF: lambda a, b: a // b,
    Rounding.POSITIVE_INF: lambda a, b: -(-a // b),
}
RING = {AddI: int.__add__, SubI: int.__sub__, MulI: int.__mul__}
BITS = {AndI: int.__and__, OrI: int.__or__, XOrI: int.__xor__}
CHOICE = {MinI: min, MaxI: max}
FLOORED = {CeilDiv: lambda a, b: -(-a // b), FloorDiv: int.__floordiv__, FloorMod: int.__mod__}
PREDICATES = {
    Predicate.EQUAL: int.__eq__,
    Predicate.NOT_EQUAL: int.__ne__,
    Predicate.LESS_THAN: int.__lt__,
    Predicate.LESS_THAN_OR_EQUAL: int.__le__,
    Predicate.GREATER_THAN: int.__gt__,
    Predicate.GREATER_THAN_OR_EQUAL: int.__ge__,
}


@dataclass
class Made:
    """A value, with its bits in the run that is being drawn."""

    value: Value
    bits: int

    @property
    def width(self) -> int:
        return self.value.type.element.bits

    @property
    def dtype(self) -> type[DType]:
        return self.value.dtype

    def number(self, signed: bool | None = None) -> int:
        return read(self.bits, self.width, self.dtype.signed if signed is None else signed)


class Program:
    """Straight-line code over 8- and 16-bit scalars, computed as it is built."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.builder = Builder(Block())
        self.setting: dict = {}
        self.made: list[Made] = []
        self.truths: list[Made] = []
        for number in range(3):
            self.argument(number)
        for _ in range(draw(st.integers(1, 6))):
            draw(st.sampled_from(self.kinds()))()

    def kinds(self) -> list[Callable[[], None]]:
        return [
            self.ring, self.bits, self.extremum, self.unary, self.shift, self.division,
            self.floored, self.conversion, self.comparison, self.choice, self.constant,
        ]  # fmt: skip

    def pick(self, width: int = 8) -> Made:
        return self.draw(st.sampled_from([made for made in self.made if made.width == width]))

    def keep(self, op: Op, bits: int) -> None:
        value = self.builder.add(op).results[0]
        width = value.type.element.bits
        target = self.truths if width == 1 else self.made
        target.append(Made(value, bits % (1 << width)))

    def argument(self, number: int) -> None:
        dtype = self.draw(st.sampled_from(NARROW))
        term = ScalarArgument(f"s{number}")
        bits = self.draw(st.one_of(st.integers(0, 255), st.sampled_from([0, 1, 127, 128, 255])))
        self.setting[term] = read(bits, 8, dtype.signed)
        self.keep(LaunchValue(term=term, to=scalar(Element.I8), dtype=dtype), bits)

    def constant(self) -> None:
        value = self.draw(st.integers(-128, 127))
        self.keep(Constant(value=value, to=scalar(Element.I8), dtype=i8), value)

    def pair(self) -> tuple[Made, Made, type[DType]]:
        return self.pick(), self.pick(), self.draw(st.sampled_from(NARROW))

    def signedness(self) -> tuple[Signedness, bool]:
        chosen = self.draw(st.sampled_from(list(Signedness)))
        return chosen, chosen is Signedness.SIGNED

    def ring(self) -> None:
        a, b, dtype = self.pair()
        kind = self.draw(st.sampled_from(list(RING)))
        self.keep(kind(lhs=a.value, rhs=b.value, dtype=dtype), RING[kind](a.bits, b.bits))

    def bits(self) -> None:
        a, b, dtype = self.pair()
        kind = self.draw(st.sampled_from(list(BITS)))
        self.keep(kind(lhs=a.value, rhs=b.value, dtype=dtype), BITS[kind](a.bits, b.bits))

    def extremum(self) -> None:
        a, b, dtype = self.pair()
        kind = self.draw(st.sampled_from(list(CHOICE)))
        attribute, signed = self.signedness()
        found = CHOICE[kind](a.number(signed), b.number(signed))
        self.keep(kind(lhs=a.value, rhs=b.value, signedness=attribute, dtype=dtype), found)

    def unary(self) -> None:
        a = self.pick()
        if self.draw(st.booleans()):
            self.keep(NegI(source=a.value, dtype=a.dtype), -a.bits)
        else:
            self.keep(AbsI(source=a.value, dtype=i8), abs(a.number(True)))

    def shift(self) -> None:
        a, by = self.pick(), self.draw(st.integers(0, 7))
        self.keep(Constant(value=by, to=scalar(Element.I8), dtype=i8), by)
        amount = self.made[-1].value
        if self.draw(st.booleans()):
            self.keep(ShLI(lhs=a.value, rhs=amount, dtype=a.dtype), a.bits << by)
        else:
            attribute, signed = self.signedness()
            op = ShRI(lhs=a.value, rhs=amount, signedness=attribute, dtype=a.dtype)
            self.keep(op, a.number(signed) >> by)

    def division(self) -> None:
        a, b, dtype = self.pair()
        attribute, signed = self.signedness()
        left, right = a.number(signed), b.number(signed)
        if right == 0:
            return  # undefined
        parts = {"lhs": a.value, "rhs": b.value, "signedness": attribute, "dtype": dtype}
        if self.draw(st.booleans()):
            self.keep(RemI(**parts), left - truncated(left, right) * right)
        else:
            rounding = self.draw(st.sampled_from(list(ROUNDED)))
            self.keep(DivI(**parts, rounding=rounding), ROUNDED[rounding](left, right))

    def floored(self) -> None:
        a, b = self.pick(), self.pick()
        self.keep(DivisorCheck(divisor=b.value, dtype=b.dtype), b.bits or 1)
        right = self.made[-1]
        kind = self.draw(st.sampled_from(list(FLOORED)))
        divisor = right.number(a.dtype.signed)
        op = kind(lhs=a.value, rhs=right.value, dtype=a.dtype)
        self.keep(op, FLOORED[kind](a.number(), divisor))

    def conversion(self) -> None:
        a = self.pick()
        attribute, signed = self.signedness()
        wide = self.draw(st.sampled_from([i16, u16]))
        to = scalar(Element.I16)
        self.keep(ExtI(source=a.value, to=to, signedness=attribute, dtype=wide), a.number(signed))
        b = self.made[-1]
        self.keep(MulI(lhs=b.value, rhs=b.value, dtype=wide), b.bits * b.bits)
        c = self.made[-1]
        dtype = self.draw(st.sampled_from(NARROW))
        self.keep(TruncI(source=c.value, to=scalar(Element.I8), dtype=dtype), c.bits)

    def comparison(self) -> None:
        a, b, _ = self.pair()
        attribute, signed = self.signedness()
        predicate = self.draw(st.sampled_from(list(PREDICATES)))
        found = PREDICATES[predicate](a.number(signed), b.number(signed))
        op = CmpI(
            lhs=a.value, rhs=b.value, comparison_predicate=predicate, signedness=attribute,
            dtype=bool_,
        )  # fmt: skip
        self.keep(op, int(found))
        self.mix_truths()

    def mix_truths(self) -> None:
        a, b = (self.draw(st.sampled_from(self.truths)) for _ in range(2))
        kind = self.draw(st.sampled_from(list(BITS)))
        self.keep(kind(lhs=a.value, rhs=b.value, dtype=bool_), BITS[kind](a.bits, b.bits))
        one = Constant(value=1, to=scalar(Element.I1), dtype=bool_)
        self.keep(one, 1)
        self.keep(XOrI(lhs=a.value, rhs=self.truths[-1].value, dtype=bool_), 1 - a.bits)

    def choice(self) -> None:
        if not self.truths:
            return
        condition = self.draw(st.sampled_from(self.truths))
        pools = [self.made, self.truths]
        pool = [m for m in self.draw(st.sampled_from(pools)) if m.width in (1, 8)]
        a, b = (self.draw(st.sampled_from(pool)) for _ in range(2))
        if a.dtype is not b.dtype:
            return
        chosen = a if condition.bits else b
        if self.draw(st.booleans()):
            values = {"val_if_true": a.value, "val_if_false": b.value}
            self.keep(Select(cond=condition.value, **values, dtype=a.dtype), chosen.bits)
        else:
            blocks = [Block((), [Yield(values=(made.value,))]) for made in (a, b)]
            op = If(
                condition=condition.value, then_body=blocks[0], else_body=blocks[1],
                types=(a.value.type,), dtype=a.dtype,
            )  # fmt: skip
            self.keep(op, chosen.bits)

    def function(self) -> Function:
        self.builder.add(Return())
        return Function("kernel", self.builder.block)


@st.composite
def programs(draw: st.DrawFn) -> Program:
    return Program(draw)


class WithVariables(Concrete):
    """Variables have the number of the value that first had them."""

    def __init__(self, setting: dict) -> None:
        super().__init__(setting)
        self.variables: dict[Variable, int] = {}

    def at(self, atom: Atom) -> Interval:
        if isinstance(atom, Variable):
            return Interval(self.variables[atom], self.variables[atom])
        return super().at(atom)

    def agrees(self, term: Linear, number: int) -> bool:
        atom = term.atom
        if isinstance(atom, Variable) and atom not in self.variables:
            self.variables[atom] = number
            bounds = [self.of(low).low <= number for low in atom.lowers]
            if not all(bounds + [self.of(high).high >= number for high in atom.uppers]):
                return False
        return self.of(term) == Interval(number, number)


@given(programs())
@settings(max_examples=300)
def test_every_rule_agrees_with_the_machine(program):
    flow = analyse(program.function())
    numbers = WithVariables(program.setting)
    for made in program.made:
        term, number = flow.terms[made.value], made.number()
        assert term.range.low <= number <= term.range.high
        assert numbers.agrees(term, number)
    for made in program.truths:
        if made.value in flow.formulas:
            assert flow.formulas[made.value].truth(numbers) in (None, bool(made.bits))


def test_a_block_knows_its_number_and_how_many_there_are():
    builder = Builder(Block())
    place, count = builder.add(GetTileBlockId()), builder.add(GetNumTileBlocks())
    builder.add(Return())
    flow = analyse(Function("kernel", builder.block))
    below = flow.term(count.x) - 1 - flow.term(place.x)
    assert flow.root.proves(below)
    assert flow.root.proves(flow.term(place.y))
    assert flow.root.proves(flow.term(count.z) - 1)


def test_an_assumption_is_passed_through():
    builder = Builder(Block())
    value = builder.add(LaunchValue(term=ScalarArgument("n"), to=scalar(Element.I32))).result
    same = builder.add(Assume(value=value, predicate=DivBy(4))).result
    builder.add(Return())
    flow = analyse(Function("kernel", builder.block))
    assert flow.term(same) == flow.term(value)
