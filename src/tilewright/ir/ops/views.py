"""Views beside the partition: strided tiles, gathered rows, and atomic reductions into views."""

from __future__ import annotations

from tilewright.ir.attributes import AtomicMode, MemoryOrder, MemoryScope
from tilewright.ir.codecs import EnumCodec
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
    """Tiles of a tensor view that start at any regular step."""

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
    """Tiles of a tensor view whose rows are picked by index.

    A load or store has one index for each axis: a tile of row indices for the sparse axis, and the
    index of the first element, not of the tile, for each other axis.
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
    """Combine a tile into a tile of a view, atomically for each element, without a result."""

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
