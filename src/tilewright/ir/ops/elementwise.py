"""Element-wise ops: arithmetic, mathematics, comparison, conversion.

`meaning` is the equivalent NumPy function of the operands where one exists; the CPU backend has a
rule for every other op.
"""

from __future__ import annotations

import numpy as np

from tilewright.ir.attributes import Ordering, Overflow, Rounding, Signedness
from tilewright.ir.codecs import EnumCodec
from tilewright.ir.op import Op, Value, attr, defined, flag, operand
from tilewright.ir.ops.families import (
    COMPARED,
    CONVERTED,
    FLUSHED,
    OVERFLOW,
    ROUNDED,
    ROUNDING,
    SIGNEDNESS,
    TYPED,
    WRAPPED,
    Binary,
    ComparisonOp,
    Conversion,
    ExtremumF,
    RoundedBinary,
    SignedBinary,
    Unary,
    WrappingBinary,
)
from tilewright.ir.types import Type

__all__ = [
    "AbsF", "AbsI", "AddF", "AddI", "AndI", "Atan2", "Bitcast", "Ceil", "CmpF", "CmpI", "Cos",
    "Cosh", "DivF", "DivI", "Exp", "Exp2", "ExtI", "FPowI", "FToF", "FToI", "Floor", "Fma", "IToF",
    "Log", "Log2", "MaxF", "MaxI", "MinF", "MinI", "MulF", "MulHiI", "MulI", "NegF", "NegI", "OrI",
    "Pow", "RemF", "RemI", "Rsqrt", "Select", "ShLI", "ShRI", "Sin", "Sinh", "Sqrt", "SubF",
    "SubI", "Tan", "Tanh", "TruncI", "XOrI",
]  # fmt: skip


# --- floats, one operand -------------------------------------------------------------------------


class AbsF(Unary, mnemonic="absf", opcode=0x00, meaning=np.abs):
    """Magnitude of floats."""


class Ceil(Unary, mnemonic="ceil", opcode=0x0D, meaning=np.ceil):
    """Least whole number not below the operand."""


class Cos(Unary, mnemonic="cos", opcode=0x12, meaning=np.cos):
    """Cosine of radians."""


class Cosh(Unary, mnemonic="cosh", opcode=0x13, meaning=np.cosh):
    """Hyperbolic cosine."""


class Exp(
    Unary, mnemonic="exp", opcode=0x17, meaning=np.exp, assembly="{source} " + ROUNDED + TYPED
):
    """Natural exponential."""

    rounding_mode: Rounding = attr(ROUNDING, default=Rounding.FULL, since=(13, 3))


class Exp2(
    Unary, mnemonic="exp2", opcode=0x18, meaning=np.exp2, assembly="{source}" + FLUSHED + TYPED
):
    """Power of two."""

    flush_to_zero: bool = flag(default=False)


class Floor(Unary, mnemonic="floor", opcode=0x27, meaning=np.floor):
    """Greatest whole number not above the operand."""


class Log(Unary, mnemonic="log", opcode=0x3F, meaning=np.log):
    """Natural logarithm."""


class Log2(Unary, mnemonic="log2", opcode=0x40, meaning=np.log2):
    """Logarithm to base two."""


class NegF(Unary, mnemonic="negf", opcode=0x4F, meaning=np.negative):
    """Floats with the opposite sign."""


class Rsqrt(Unary, mnemonic="rsqrt", opcode=0x5D, assembly="{source}" + FLUSHED + TYPED):
    """Reciprocal of the square root."""

    flush_to_zero: bool = flag(default=False)


class Sin(Unary, mnemonic="sin", opcode=0x62, meaning=np.sin):
    """Sine of radians."""


class Sinh(Unary, mnemonic="sinh", opcode=0x63, meaning=np.sinh):
    """Hyperbolic sine."""


class Sqrt(
    Unary,
    mnemonic="sqrt",
    opcode=0x64,
    meaning=np.sqrt,
    assembly="{source} " + ROUNDED + FLUSHED + TYPED,
):
    """Square root."""

    rounding_mode: Rounding = attr(ROUNDING, default=Rounding.NEAREST_EVEN)
    flush_to_zero: bool = flag(default=False)


class Tan(Unary, mnemonic="tan", opcode=0x69, meaning=np.tan):
    """Tangent of radians."""


class Tanh(
    Unary, mnemonic="tanh", opcode=0x6A, meaning=np.tanh, assembly="{source} " + ROUNDED + TYPED
):
    """Hyperbolic tangent."""

    rounding_mode: Rounding = attr(ROUNDING, default=Rounding.FULL, since=(13, 2))


# --- floats, more operands -----------------------------------------------------------------------


class AddF(RoundedBinary, mnemonic="addf", opcode=0x02, meaning=np.add):
    """Sum of floats."""


class SubF(RoundedBinary, mnemonic="subf", opcode=0x67, meaning=np.subtract):
    """Difference of floats."""


class MulF(RoundedBinary, mnemonic="mulf", opcode=0x4C, meaning=np.multiply):
    """Product of floats."""


class DivF(RoundedBinary, mnemonic="divf", opcode=0x14, meaning=np.divide):
    """Quotient of floats."""


class Fma(
    Op, mnemonic="fma", opcode=0x28, assembly="{lhs}, {rhs}, {acc} " + ROUNDED + FLUSHED + TYPED
):
    """`lhs * rhs + acc`, rounded once."""

    lhs: Value = operand()
    rhs: Value = operand()
    acc: Value = operand()
    rounding_mode: Rounding = attr(ROUNDING, default=Rounding.NEAREST_EVEN)
    flush_to_zero: bool = flag(default=False)
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (self.lhs.type,)


class MaxF(ExtremumF, mnemonic="maxf", opcode=0x45):
    """Greater of two floats; the number beats a NaN unless `propagate_nan`."""


class MinF(ExtremumF, mnemonic="minf", opcode=0x47):
    """Lesser of two floats; the number beats a NaN unless `propagate_nan`."""


class Pow(
    Op, mnemonic="fpowf", opcode=0x54, meaning=np.power, assembly="{source}, {exponent}" + TYPED
):
    """`source` to the power of `exponent`."""

    source: Value = operand()
    exponent: Value = operand()
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (self.source.type,)


class FPowI(
    Op,
    mnemonic="fpowi",
    opcode=0x79,
    since=(13, 4),
    assembly="{source}, {exponent} : {source:type}, {exponent:type}",
):
    """`source` to the power of a signed integer."""

    source: Value = operand()
    exponent: Value = operand()
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (self.source.type,)


class RemF(Binary, mnemonic="remf", opcode=0x59, meaning=np.fmod):
    """Remainder with the sign of the dividend."""


class Atan2(
    Op,
    mnemonic="atan2",
    opcode=0x6E,
    since=(13, 2),
    meaning=np.arctan2,
    assembly="{x}, {y}" + TYPED,
):
    """Arctangent of `x / y`, in the quadrant of the two signs."""

    x: Value = operand()
    y: Value = operand()
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (self.x.type,)


# --- integers ------------------------------------------------------------------------------------


class AbsI(Unary, mnemonic="absi", opcode=0x01, meaning=np.abs):
    """Magnitude of signed integers; the least integer maps to itself."""


class NegI(
    Unary, mnemonic="negi", opcode=0x50, meaning=np.negative, assembly="{source}" + WRAPPED + TYPED
):
    """Integers with the opposite sign, modulo the width."""

    overflow: Overflow = attr(OVERFLOW, default=Overflow.NONE, since=(13, 2))


class AddI(WrappingBinary, mnemonic="addi", opcode=0x03, meaning=np.add):
    """Sum of integers."""


class SubI(WrappingBinary, mnemonic="subi", opcode=0x68, meaning=np.subtract):
    """Difference of integers."""


class MulI(WrappingBinary, mnemonic="muli", opcode=0x4E, meaning=np.multiply):
    """Product of integers."""


class ShLI(WrappingBinary, mnemonic="shli", opcode=0x60):
    """Left shift. A shift by the width or more is undefined."""


class ShRI(SignedBinary, mnemonic="shri", opcode=0x61):
    """Right shift. A shift by the width or more is undefined."""


class MaxI(SignedBinary, mnemonic="maxi", opcode=0x46):
    """Greater of two integers."""


class MinI(SignedBinary, mnemonic="mini", opcode=0x48):
    """Lesser of two integers."""


class RemI(SignedBinary, mnemonic="remi", opcode=0x5A):
    """Remainder with the sign of the dividend. A zero divisor is undefined."""


class DivI(
    SignedBinary,
    mnemonic="divi",
    opcode=0x15,
    assembly="{lhs}, {rhs} {signedness}{?rounding} rounding<{rounding}>{/}" + TYPED,
):
    """Quotient, rounded to zero, down or up. A zero divisor is undefined."""

    rounding: Rounding = attr(ROUNDING, default=Rounding.ZERO)


class AndI(Binary, mnemonic="andi", opcode=0x04, meaning=np.bitwise_and):
    """Bitwise and."""


class OrI(Binary, mnemonic="ori", opcode=0x52, meaning=np.bitwise_or):
    """Bitwise or."""


class XOrI(Binary, mnemonic="xori", opcode=0x6C, meaning=np.bitwise_xor):
    """Bitwise exclusive or."""


class MulHiI(Op, mnemonic="mulhii", opcode=0x4D, assembly="{x}, {y}" + TYPED):
    """High half of the unsigned product."""

    x: Value = operand()
    y: Value = operand()
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (self.x.type,)


# --- comparison and choice -----------------------------------------------------------------------


class CmpF(
    ComparisonOp,
    mnemonic="cmpf",
    opcode=0x0E,
    assembly="{comparison_predicate} {comparison_ordering} {lhs}, {rhs}" + COMPARED,
):
    """Comparison of floats."""

    comparison_ordering: Ordering = attr(EnumCodec(Ordering), default=Ordering.ORDERED)


class CmpI(
    ComparisonOp,
    mnemonic="cmpi",
    opcode=0x0F,
    assembly="{comparison_predicate} {lhs}, {rhs}, {signedness}" + COMPARED,
):
    """Comparison of integers."""

    signedness: Signedness = attr(SIGNEDNESS, default=Signedness.SIGNED)


class Select(
    Op,
    mnemonic="select",
    opcode=0x5F,
    meaning=np.where,
    assembly="{cond}, {val_if_true}, {val_if_false} : {cond:type}, {result:type}",
):
    """Elements of one of two tiles, by a condition."""

    cond: Value = operand()
    val_if_true: Value = operand()
    val_if_false: Value = operand()
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (self.val_if_true.type,)


# --- conversion ----------------------------------------------------------------------------------


class Bitcast(Conversion, mnemonic="bitcast", opcode=0x09):
    """The same bits read as another element of the same width."""


class ExtI(Conversion, mnemonic="exti", opcode=0x25, assembly="{source} {signedness}" + CONVERTED):
    """A wider integer of the same value."""

    signedness: Signedness = attr(SIGNEDNESS, default=Signedness.SIGNED)


class TruncI(Conversion, mnemonic="trunci", opcode=0x6B, assembly="{source}" + WRAPPED + CONVERTED):
    """The low bits as a narrower integer."""

    overflow: Overflow = attr(OVERFLOW, default=Overflow.NONE)


class FToF(Conversion, mnemonic="ftof", opcode=0x2A, assembly="{source} " + ROUNDED + CONVERTED):
    """A float of another precision."""

    rounding_mode: Rounding = attr(ROUNDING, default=Rounding.NEAREST_EVEN)


class IToF(
    Conversion,
    mnemonic="itof",
    opcode=0x3B,
    assembly="{source} {signedness} " + ROUNDED + CONVERTED,
):
    """The nearest float to an integer."""

    signedness: Signedness = attr(SIGNEDNESS, default=Signedness.SIGNED)
    rounding_mode: Rounding = attr(ROUNDING, default=Rounding.NEAREST_EVEN)


class FToI(
    Conversion,
    mnemonic="ftoi",
    opcode=0x2B,
    assembly="{source} {signedness} " + ROUNDED + "{?saturating} saturating{/}" + CONVERTED,
):
    """Float truncated to an integer. Out of range is undefined unless `saturating`."""

    saturating: bool = flag(default=False, since=(13, 4))
    signedness: Signedness = attr(SIGNEDNESS, default=Signedness.SIGNED)
    rounding_mode: Rounding = attr(ROUNDING, default=Rounding.NEAREST_INT_TO_ZERO)
