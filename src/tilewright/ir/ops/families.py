"""Families of element-wise ops: fields, type rule and text form that their members share."""

from __future__ import annotations

from tilewright.dtypes import Element
from tilewright.ir.attributes import Overflow, Predicate, Rounding, Signedness
from tilewright.ir.codecs import EnumCodec
from tilewright.ir.op import Op, Value, attr, defined, flag, operand, typed
from tilewright.ir.types import TileType, Type

__all__ = [
    "COMPARED", "CONVERTED", "FLUSHED", "OVERFLOW", "ROUNDED", "ROUNDING", "SIGNEDNESS", "TYPED",
    "WRAPPED", "Binary", "ComparisonOp", "Conversion", "ExtremumF", "RoundedBinary", "SignedBinary",
    "Unary", "WrappingBinary",
]  # fmt: skip

ROUNDING = EnumCodec(Rounding)  # rounding mode of float results
OVERFLOW = EnumCodec(Overflow)  # promise that an integer result does not wrap
SIGNEDNESS = EnumCodec(Signedness)  # reading of integer bits

TYPED = " : {result:type}"  # text form: end of an op with one type
COMPARED = " : {lhs:type} -> {result:type}"  # text form: end of a comparison
CONVERTED = " : {source:type} -> {result:type}"  # text form: end of a conversion
ROUNDED = "{?rounding_mode}rounding<{rounding_mode}>{/}"  # text form: omitted for the default mode
FLUSHED = "{?flush_to_zero} flush_to_zero{/}"  # text form: a flag
WRAPPED = "{?overflow} overflow<{overflow}>{/}"  # text form: omitted without a promise


class Unary(Op, assembly="{source}" + TYPED):
    """One operand, and a result of its type."""

    source: Value = operand()
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (self.source.type,)


class Binary(Op, assembly="{lhs}, {rhs}" + TYPED):
    """Two operands of one type, and a result of that type."""

    lhs: Value = operand()
    rhs: Value = operand()
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (self.lhs.type,)


class RoundedBinary(Binary, assembly="{lhs}, {rhs} " + ROUNDED + FLUSHED + TYPED):
    """Float arithmetic with a rounding mode."""

    rounding_mode: Rounding = attr(ROUNDING, default=Rounding.NEAREST_EVEN)
    flush_to_zero: bool = flag(default=False)


class WrappingBinary(Binary, assembly="{lhs}, {rhs}" + WRAPPED + TYPED):
    """Integer arithmetic modulo the width, unless the overflow attribute promises otherwise."""

    overflow: Overflow = attr(OVERFLOW, default=Overflow.NONE)


class SignedBinary(Binary, assembly="{lhs}, {rhs} {signedness}" + TYPED):
    """Integer arithmetic that reads its bits as signed or unsigned."""

    signedness: Signedness = attr(SIGNEDNESS, default=Signedness.SIGNED)


class ExtremumF(
    Binary, assembly="{lhs}, {rhs}" + FLUSHED + "{?propagate_nan} propagate_nan{/}" + TYPED
):
    """Least or greatest of two floats."""

    propagate_nan: bool = flag(default=False)
    flush_to_zero: bool = flag(default=False)


class Conversion(Op, assembly="{source}" + CONVERTED):
    """A result with another element type."""

    source: Value = operand()
    to: TileType = typed()
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (self.to,)


class ComparisonOp(Op):
    """Two operands, and a result of truth values."""

    lhs: Value = operand()
    rhs: Value = operand()
    comparison_predicate: Predicate = attr(EnumCodec(Predicate))
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        assert isinstance(self.lhs.type, TileType)
        return (self.lhs.type.with_element(Element.I1),)
