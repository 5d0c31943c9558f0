"""Ops that combine elements along an axis, and matrix products."""

from __future__ import annotations

from typing import ClassVar

from tilewright.ir.attributes import FloatIdentity, IntIdentity, Signedness
from tilewright.ir.codecs import ArrayCodec, BoolCodec, EnumCodec, IntCodec
from tilewright.ir.op import (
    Block,
    Op,
    Value,
    attr,
    defined,
    defined_many,
    flag,
    operand,
    operands,
    region,
)
from tilewright.ir.types import TileType, Type

__all__ = ["MmaF", "MmaFScaled", "MmaI", "Reduce", "Scan"]

Identity = FloatIdentity | IntIdentity


class Reduce(
    Op,
    mnemonic="reduce",
    opcode=0x58,
    assembly=(
        "reduce := {sources} dim={dim} identities=[{identities}] : {sources:types} -> "
        "{totals:types} {body:body}"
    ),
):
    """Combine all elements along `dim`.

    The body takes scalars in pairs, element and accumulator for each operand, and yields the new
    accumulators. Order of combination is free.
    """

    TOTALS_FIRST: ClassVar[bool] = False  # position of the accumulator in a pair

    sources: tuple[Value, ...] = operands(default=())
    dim: int = attr(IntCodec())
    identities: tuple[Identity, ...] = attr(ArrayCodec())
    body: Block = region()
    totals: tuple[Value, ...] = defined_many()

    def result_types(self) -> tuple[Type, ...]:
        return tuple(_without_axis(value, self.dim) for value in self.sources)


class Scan(
    Op,
    mnemonic="scan",
    opcode=0x5E,
    assembly=(
        "{sources} dim={dim} reverse={reverse} identities=[{identities}] : "
        "{sources:types} -> {totals:types} {body:body}"
    ),
):
    """Inclusive prefix combination along `dim`.

    The body takes scalars in pairs, accumulator and element for each operand, and yields the new
    accumulators; operands keep the order of the axis.
    """

    TOTALS_FIRST: ClassVar[bool] = True  # as GPUs do, unlike in a reduction

    sources: tuple[Value, ...] = operands(default=())
    dim: int = attr(IntCodec())
    reverse: bool = attr(BoolCodec(), default=False)
    identities: tuple[Identity, ...] = attr(ArrayCodec())
    body: Block = region()
    totals: tuple[Value, ...] = defined_many()

    def result_types(self) -> tuple[Type, ...]:
        return tuple(value.type for value in self.sources)


class MmaF(
    Op,
    mnemonic="mmaf",
    opcode=0x49,
    assembly=("{lhs}, {rhs}, {acc}{?fast_acc} fast_acc{/} : {lhs:type}, {rhs:type}, {acc:type}"),
):
    """Matrix product of floats added to an accumulator; rank 2, or 3 for a batch."""

    lhs: Value = operand()
    rhs: Value = operand()
    acc: Value = operand()
    fast_acc: bool = flag(default=False, since=(13, 3))
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (self.acc.type,)


class MmaI(
    Op,
    mnemonic="mmai",
    opcode=0x4A,
    assembly=(
        "{lhs}, {rhs}, {acc} {signedness_lhs} {signedness_rhs} : {lhs:type}, {rhs:type}, {acc:type}"
    ),
):
    """Matrix product of 8-bit integers added to a 32-bit accumulator."""

    lhs: Value = operand()
    rhs: Value = operand()
    acc: Value = operand()
    signedness_lhs: Signedness = attr(EnumCodec(Signedness), default=Signedness.SIGNED)
    signedness_rhs: Signedness = attr(EnumCodec(Signedness), default=Signedness.SIGNED)
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (self.acc.type,)


class MmaFScaled(
    Op,
    mnemonic="mmaf_scaled",
    opcode=0x72,
    since=(13, 3),
    assembly=(
        "{lhs}, {rhs}, {acc}, {lhs_scale}, {rhs_scale} : {lhs:type}, {rhs:type}, {acc:type}, "
        "{lhs_scale:type}, {rhs_scale:type}"
    ),
):
    """Matrix product of narrow floats, groups of which along `k` share a scale.

    `lhs_scale` has a column for each group of `lhs`, `rhs_scale` a row for each group of `rhs`.
    """

    lhs: Value = operand()
    rhs: Value = operand()
    acc: Value = operand()
    lhs_scale: Value = operand()
    rhs_scale: Value = operand()
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (self.acc.type,)


def _without_axis(value: Value, axis: int) -> TileType:
    assert isinstance(value.type, TileType)
    shape = value.type.shape
    return value.type.with_shape(shape[:axis] + shape[axis + 1 :])
