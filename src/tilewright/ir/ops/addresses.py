"""Ops that produce addresses: pointer conversions, globals, block-local memory.

`memory` has the ops that access memory through them.
"""

from __future__ import annotations

from tilewright.ir.codecs import IntCodec, SymbolCodec
from tilewright.ir.op import Effect, Op, Value, attr, defined, flag, typed
from tilewright.ir.ops.families import Conversion
from tilewright.ir.types import TileType, Type

__all__ = ["Alloca", "GetGlobal", "IntToPtr", "PtrToInt", "PtrToPtr"]


class IntToPtr(Conversion, mnemonic="int_to_ptr", opcode=0x33):
    """Pointers from 64-bit integers."""


class PtrToInt(Conversion, mnemonic="ptr_to_int", opcode=0x56):
    """Pointers as 64-bit integers."""


class PtrToPtr(Conversion, mnemonic="ptr_to_ptr", opcode=0x57):
    """The same addresses as pointers to another element."""


class GetGlobal(
    Op,
    mnemonic="get_global",
    opcode=0x2C,
    assembly="{name} : {result:type}",
):
    """The address of a global of the module."""

    name: str = attr(SymbolCodec())
    to: TileType = typed()
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (self.to,)


class Alloca(
    Op,
    mnemonic="alloca",
    opcode=0x71,
    since=(13, 3),
    effect=Effect.WRITE,
    assembly=(
        "num_elem = {num_elem}, alignment = {alignment}{?global_memory} global{/} : {result:type}"
    ),
):
    """Fresh memory for `num_elem` elements, aligned to `alignment` bytes, until its region ends.

    Only this block may use the address, unless `global_memory` allows other blocks as well.
    """

    num_elem: int = attr(IntCodec())
    alignment: int = attr(IntCodec())
    global_memory: bool = flag(default=False)
    to: TileType = typed()
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (self.to,)
