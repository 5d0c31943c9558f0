"""Where addresses come from and what they turn into: conversions, globals, memory of a block.

What is read and written through them is in `memory`.
"""

from __future__ import annotations

from tilewright.ir.attributes import IntCodec, SymbolCodec
from tilewright.ir.op import Effect, Op, Value, attr, defined, flag, typed
from tilewright.ir.ops.families import Conversion
from tilewright.ir.types import TileType, Type

__all__ = ["Alloca", "GetGlobal", "IntToPtr", "PtrToInt", "PtrToPtr"]


class IntToPtr(Conversion, mnemonic="int_to_ptr", opcode=0x33):
    """Addresses given as 64-bit integers."""


class PtrToInt(Conversion, mnemonic="ptr_to_int", opcode=0x56):
    """Addresses as 64-bit integers."""


class PtrToPtr(Conversion, mnemonic="ptr_to_ptr", opcode=0x57):
    """The same addresses, read as those of another element."""


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
    """Fresh memory for `num_elem` elements, aligned to so many bytes, until its region ends.

    Only this block may use the address, unless with `global_memory` others may, too.
    """

    num_elem: int = attr(IntCodec())
    alignment: int = attr(IntCodec())
    global_memory: bool = flag(default=False)
    to: TileType = typed()
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (self.to,)
