"""Integer formulas over a builder: each method adds one op and gives its result.

A Python number beside a value becomes a constant of that value's type, and results keep the dtype
of the left operand, so that lowered arithmetic reads like its formula. All ops wrap; none promises
the absence of overflow.
"""

from __future__ import annotations

from tilewright.dtypes import Element
from tilewright.ir.attributes import Predicate, Rounding, Signedness
from tilewright.ir.builder import Builder
from tilewright.ir.op import Value
from tilewright.ir.ops.elementwise import (
    AddI,
    AndI,
    CmpI,
    DivI,
    ExtI,
    MaxI,
    MinI,
    MulI,
    NegI,
    RemI,
    Select,
    SubI,
    TruncI,
    XOrI,
)
from tilewright.ir.ops.shape import Constant
from tilewright.ir.types import TileType

__all__ = ["Integers", "element_of", "is_unsigned"]

Number = Value | int


def element_of(value: Value) -> Element:
    """The element type of an integer tile."""
    assert isinstance(value.type, TileType)
    assert isinstance(value.type.element, Element)
    return value.type.element


def is_unsigned(value: Value) -> bool:
    """Whether the author's dtype is unsigned; Tile IR's own integers have no signedness."""
    return value.dtype is not None and not value.dtype.signed


class Integers:
    """Adds integer ops at the builder's insertion point."""

    def __init__(self, builder: Builder) -> None:
        self._add = builder.add

    def constant(self, number: Number, like: Value) -> Value:
        """A number in every element of a tile like another; a value is returned unchanged."""
        if isinstance(number, Value):
            return number
        assert isinstance(like.type, TileType)
        return self._add(Constant(value=number, to=like.type, dtype=like.dtype)).result

    def add(self, lhs: Value, rhs: Number) -> Value:
        """Sum."""
        rhs = self.constant(rhs, lhs)
        return self._add(AddI(lhs=lhs, rhs=rhs, dtype=lhs.dtype)).result

    def subtract(self, lhs: Value, rhs: Number) -> Value:
        """Difference."""
        rhs = self.constant(rhs, lhs)
        return self._add(SubI(lhs=lhs, rhs=rhs, dtype=lhs.dtype)).result

    def multiply(self, lhs: Value, rhs: Number) -> Value:
        """Product."""
        rhs = self.constant(rhs, lhs)
        return self._add(MulI(lhs=lhs, rhs=rhs, dtype=lhs.dtype)).result

    def negative(self, source: Value) -> Value:
        """The negated value."""
        return self._add(NegI(source=source, dtype=source.dtype)).result

    def both(self, lhs: Value, rhs: Value) -> Value:
        """Bits set in both."""
        return self._add(AndI(lhs=lhs, rhs=rhs, dtype=lhs.dtype)).result

    def differing(self, lhs: Value, rhs: Value) -> Value:
        """Bits set in one of the two."""
        return self._add(XOrI(lhs=lhs, rhs=rhs, dtype=lhs.dtype)).result

    def least(self, lhs: Value, rhs: Number, signedness: Signedness = Signedness.SIGNED) -> Value:
        """The minimum of two."""
        rhs = self.constant(rhs, lhs)
        return self._add(MinI(lhs=lhs, rhs=rhs, signedness=signedness, dtype=lhs.dtype)).result

    def greatest(self, lhs: Value, rhs: Number) -> Value:
        """The maximum of two, read as signed."""
        rhs = self.constant(rhs, lhs)
        return self._add(MaxI(lhs=lhs, rhs=rhs, dtype=lhs.dtype)).result

    def divide(
        self,
        lhs: Value,
        rhs: Value,
        rounding: Rounding = Rounding.ZERO,
        signedness: Signedness = Signedness.SIGNED,
    ) -> Value:
        """Quotient; undefined for a zero divisor, and for the least integer by -1."""
        op = DivI(lhs=lhs, rhs=rhs, rounding=rounding, signedness=signedness, dtype=lhs.dtype)
        return self._add(op).result

    def remainder(
        self, lhs: Value, rhs: Value, signedness: Signedness = Signedness.SIGNED
    ) -> Value:
        """Remainder with the sign of the dividend; undefined as `divide` is."""
        return self._add(RemI(lhs=lhs, rhs=rhs, signedness=signedness, dtype=lhs.dtype)).result

    def compare(
        self,
        lhs: Value,
        predicate: Predicate,
        rhs: Number,
        signedness: Signedness = Signedness.SIGNED,
    ) -> Value:
        """The truth values of a comparison."""
        rhs = self.constant(rhs, lhs)
        op = CmpI(lhs=lhs, rhs=rhs, comparison_predicate=predicate, signedness=signedness)
        return self._add(op).result

    def select(self, condition: Value, yes: Number, no: Value) -> Value:
        """One of two values by a truth value."""
        yes = self.constant(yes, no)
        op = Select(cond=condition, val_if_true=yes, val_if_false=no, dtype=no.dtype)
        return self._add(op).result

    def resized(self, source: Value, element: Element) -> Value:
        """The number in another width; its low bits if it does not fit."""
        own = element_of(source)
        if own is element:
            return source
        assert isinstance(source.type, TileType)
        to = source.type.with_element(element)
        if own.bits > element.bits:
            return self._add(TruncI(source=source, to=to)).result
        signedness = Signedness.UNSIGNED if is_unsigned(source) else Signedness.SIGNED
        return self._add(ExtI(source=source, to=to, signedness=signedness)).result
