"""Control flow, and the ops by which a block reads its place in the grid.

A region's block ends in `Continue` under `For` and `Loop`, in `Yield` under `If`, `Reduce` and
`Scan`, in `Return` in a function. `Break` leaves a `Loop`.
"""

from __future__ import annotations

from tilewright.dtypes import Element
from tilewright.ir.attributes import Promise
from tilewright.ir.codecs import PredicateCodec, StringCodec
from tilewright.ir.op import (
    Block,
    Effect,
    Op,
    Value,
    attr,
    defined,
    defined_many,
    flag,
    operand,
    operands,
    optional_operand,
    region,
    typed_all,
)
from tilewright.ir.types import TOKEN, Type, scalar

__all__ = [
    "Assert", "Assume", "Break", "Continue", "For", "GetNumTileBlocks", "GetTileBlockId", "If",
    "Loop", "Print", "Return", "Yield",
]  # fmt: skip


class For(
    Op,
    mnemonic="for",
    opcode=0x29,
    assembly=(
        "for := {?unsigned_cmp}unsigned {/}{body:counter} in ({lower_bound} to "
        "{upper_bound}, step {step}) : {lower_bound:type} "
        "{?init_values}iter_values({body:carried}) -> ({init_values:types}) "
        "{/}{body:block}"
    ),
):
    """Counted loop. The body's arguments are the counter and the carried values."""

    lower_bound: Value = operand()
    upper_bound: Value = operand()
    step: Value = operand()
    init_values: tuple[Value, ...] = operands(default=())
    unsigned_cmp: bool = flag(default=False, since=(13, 2))
    body: Block = region()
    result_values: tuple[Value, ...] = defined_many()

    def result_types(self) -> tuple[Type, ...]:
        return tuple(value.type for value in self.init_values)


class Loop(
    Op,
    mnemonic="loop",
    opcode=0x41,
    assembly=(
        "{?init_values}iter_values({body:carried}) {/}{?init_values+result_values}: "
        "{/}{?init_values}{init_values:types} {?result_values}-> "
        "{/}{/}{?result_values}{result_values:types} {/}{body:block}"
    ),
):
    """Endless loop left by `Break`, whose operands are the results."""

    init_values: tuple[Value, ...] = operands(default=())
    body: Block = region()
    types: tuple[Type, ...] = typed_all(default=())
    result_values: tuple[Value, ...] = defined_many()

    def result_types(self) -> tuple[Type, ...]:
        return self.types


class If(
    Op,
    mnemonic="if",
    opcode=0x32,
    assembly=(
        "{condition} {?result_values}-> ({result_values:types}) {/}{then_body:block}"
        "{?else_body} else {else_body:block}{/}"
    ),
):
    """One of two regions, by a scalar condition."""

    condition: Value = operand()
    then_body: Block = region()
    else_body: Block = region()
    types: tuple[Type, ...] = typed_all(default=())
    result_values: tuple[Value, ...] = defined_many()

    def result_types(self) -> tuple[Type, ...]:
        return self.types


class Terminator(
    Op,
    effect=Effect.CONTROL,
    assembly="{?values}{values} : {values:types}{/}",
):
    """Ends a block and passes values on."""

    values: tuple[Value, ...] = operands(default=())


class Break(Terminator, mnemonic="break", opcode=0x0A):
    """Leave the loop."""


class Continue(Terminator, mnemonic="continue", opcode=0x11):
    """Start the next iteration."""


class Return(Terminator, mnemonic="return", opcode=0x5C):
    """End the tile block's program."""


class Yield(Terminator, mnemonic="yield", opcode=0x6D):
    """Pass on the results of a region."""


class ThreeAxes(Op):
    """Three numbers, one for each axis of the grid."""

    x: Value = defined()
    y: Value = defined()
    z: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (scalar(Element.I32),) * 3


class GetTileBlockId(
    ThreeAxes,
    mnemonic="get_tile_block_id",
    opcode=0x30,
    assembly="blockId_x blockId_y blockId_z := : {x:type}",
):
    """Coordinates of this block in the grid."""


class GetNumTileBlocks(
    ThreeAxes,
    mnemonic="get_num_tile_blocks",
    opcode=0x2E,
    assembly="gridSize_x gridSize_y gridSize_z := : {x:type}",
):
    """Number of blocks along each axis of the grid."""


class Assume(
    Op,
    mnemonic="assume",
    opcode=0x06,
    assembly="{predicate}, {value} : {value:type}",
):
    """The same value with a promise. A false promise is undefined behaviour."""

    value: Value = operand()
    predicate: Promise = attr(PredicateCodec())
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (self.value.type,)


class Assert(
    Op,
    mnemonic="assert",
    opcode=0x05,
    effect=Effect.OBSERVE,
    assembly="{condition}, {message} : {condition:type}",
):
    """Stop the kernel with a message when a condition is false."""

    condition: Value = operand()
    message: str = attr(StringCodec())


class Print(
    Op,
    mnemonic="print_tko",
    opcode=0x55,
    effect=Effect.OBSERVE,
    segmented=True,
    assembly=(
        "{str}{?args}, {args}{/}{?token} token={token}{/}{?args} : {args:types}{/} "
        "-> {result_token:type}"
    ),
):
    """Print tiles by a format string in the manner of C's `printf`."""

    args: tuple[Value, ...] = operands(default=())
    token: Value | None = optional_operand(default=None, since=(13, 2))
    str: str = attr(StringCodec())
    result_token: Value = defined(since=(13, 2))

    def result_types(self) -> tuple[Type, ...]:
        return (TOKEN,)
