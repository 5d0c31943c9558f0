"""Views beside the partition: tiles at any step, rows picked by number, and sums into views."""

from __future__ import annotations

from tilewright.ir.attributes import AtomicMode, EnumCodec, MemoryOrder, MemoryScope
from tilewright.ir.op import (
    Effect,
    Op,
    Value,
    attr,
    defined,
    operand,
    operands,
    optional_operand,
    typed,
)
from tilewright.ir.types import TOKEN, GatherScatterViewType, StridedViewType, Type

__all__ = ["AtomicRedView", "MakeGatherScatterView", "MakeStridedView"]


class MakeStridedView(
    Op,
    mnemonic="make_strided_view",
    opcode=0x74,
    since=(13, 3),
    assembly="sview := {tensor_view} : {result:type}",
):
    """A tensor view seen as tiles that start at any regular step."""

    tensor_view: Value = operand()
    to: StridedViewType = typed()
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (self.to,)


class MakeGatherScatterView(
    Op,
    mnemonic="make_gather_scatter_view",
    opcode=0x73,
    since=(13, 3),
    assembly="gsview := {tensor_view} : {result:type}",
):
    """A tensor view seen as tiles whose rows are picked by number.

    A load or store has one index for each axis: a tile of row numbers for the sparse axis, and the
    number of the first element, not of the tile, for each of the others.
    """

    tensor_view: Value = operand()
    to: GatherScatterViewType = typed()
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (self.to,)


class AtomicRedView(
    Op,
    mnemonic="atomic_red_view_tko",
    opcode=0x75,
    since=(13, 3),
    effect=Effect.WRITE,
    segmented=True,
    assembly=(
        "{memory_ordering} {memory_scope} {view}[{index}], {mode}, {value}{?token} "
        "token = {token}{/} : {value:type}, {view:type}, {index:kinds} -> {result_token:type}"
    ),
):
    """Combine a tile into one of a view, each element at once; what was there is not given."""

    view: Value = operand()
    index: tuple[Value, ...] = operands(default=())
    value: Value = operand()
    token: Value | None = optional_operand(default=None)
    memory_ordering: MemoryOrder = attr(EnumCodec(MemoryOrder), default=MemoryOrder.RELAXED)
    memory_scope: MemoryScope = attr(EnumCodec(MemoryScope), default=MemoryScope.DEVICE)
    mode: AtomicMode = attr(EnumCodec(AtomicMode))
    result_token: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (TOKEN,)
