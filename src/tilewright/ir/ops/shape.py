"""Ops that make tiles and change their shape."""

from __future__ import annotations

from typing import Any

from tilewright.ir.codecs import ConstantCodec, Int32ArrayCodec, IntCodec
from tilewright.ir.op import Op, Value, attr, defined, operand, operands, typed
from tilewright.ir.types import TileType, Type

__all__ = [
    "Broadcast", "Cat", "Constant", "Extract", "Insert", "Iota", "Pack", "Permute", "Reshape",
    "Unpack",
]  # fmt: skip


class Typed(Op):
    """An op whose result type is given to the constructor."""

    to: TileType = typed()
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (self.to,)


class Constant(
    Typed,
    mnemonic="constant",
    opcode=0x10,
    assembly="{value} : {result:type}",
):
    """Known elements: one Python number for all, or a NumPy array."""

    value: Any = attr(ConstantCodec())


class Iota(
    Typed,
    mnemonic="iota",
    opcode=0x3A,
    assembly=": {result:type}",
):
    """0, 1, 2, … along one axis."""


class Broadcast(
    Typed,
    mnemonic="broadcast",
    opcode=0x0B,
    assembly="bcast := {source} : {source:type} -> {result:type}",
):
    """Axes of extent one repeated; the rank stays."""

    source: Value = operand()


class Reshape(
    Typed,
    mnemonic="reshape",
    opcode=0x5B,
    assembly="reshape := {source} : {source:type} -> {result:type}",
):
    """The same elements, in row-major order, in another shape."""

    source: Value = operand()


class Permute(
    Op,
    mnemonic="permute",
    opcode=0x53,
    assembly="{source} [{permutation}] : {source:type} -> {result:type}",
):
    """Axes in another order: axis `a` of the result is axis `permutation[a]` of the source."""

    source: Value = operand()
    permutation: tuple[int, ...] = attr(Int32ArrayCodec())
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        assert isinstance(self.source.type, TileType)
        shape = self.source.type.shape
        return (self.source.type.with_shape(tuple(shape[a] for a in self.permutation)),)


class Cat(
    Op,
    mnemonic="cat",
    opcode=0x0C,
    assembly="{lhs}, {rhs} dim = {dim} : {lhs:type}, {rhs:type} -> {result:type}",
):
    """Concatenation of two tiles along `dim`."""

    lhs: Value = operand()
    rhs: Value = operand()
    dim: int = attr(IntCodec())
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        assert isinstance(self.lhs.type, TileType)
        assert isinstance(self.rhs.type, TileType)
        shape = list(self.lhs.type.shape)
        shape[self.dim] += self.rhs.type.shape[self.dim]
        return (self.lhs.type.with_shape(tuple(shape)),)


class Extract(
    Typed,
    mnemonic="extract",
    opcode=0x26,
    assembly="{source}[{indices}] : {source:type} -> {result:type}",
):
    """One of the equal parts that a tile divides into, by its index along each axis."""

    source: Value = operand()
    indices: tuple[Value, ...] = operands(default=())


class Insert(
    Op,
    mnemonic="insert",
    opcode=0x76,
    since=(13, 4),
    assembly="{source}, {destination}[{indices}] : {source:type}, {result:type}",
):
    """A tile with one of its equal parts replaced, by the part's index along each axis."""

    source: Value = operand()
    destination: Value = operand()
    indices: tuple[Value, ...] = operands(default=())
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (self.destination.type,)


class Pack(
    Typed,
    mnemonic="pack",
    opcode=0x6F,
    since=(13, 3),
    assembly="{source} : {source:type} -> {result:type}",
):
    """The bytes of a rank-1 tile, in order; two 4-bit numbers make one byte, the first low."""

    source: Value = operand()


class Unpack(
    Typed,
    mnemonic="unpack",
    opcode=0x70,
    since=(13, 3),
    assembly="{source} : {source:type} -> {result:type}",
):
    """Bytes read as the elements of a rank-1 tile; the inverse of `Pack`."""

    source: Value = operand()
