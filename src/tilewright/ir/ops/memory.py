"""Views of global memory, loads and stores, pointers, atomics, and the tokens that order them."""

from __future__ import annotations

from tilewright.dtypes import Element
from tilewright.ir.attributes import AtomicMode, MemoryOrder, MemoryScope, TargetHints
from tilewright.ir.codecs import BoolArrayCodec, EnumCodec, HintsCodec
from tilewright.ir.op import (
    Effect,
    Op,
    Value,
    attr,
    defined,
    defined_many,
    operand,
    operands,
    optional_operand,
    typed,
)
from tilewright.ir.types import (
    TOKEN,
    PartitionViewType,
    PtrType,
    TensorViewType,
    TileType,
    Type,
    ViewType,
    scalar,
)

__all__ = [
    "AtomicCas", "AtomicRmw", "GetIndexSpaceShape", "GetTensorShape", "JoinTokens", "LoadPtr",
    "LoadView", "MakePartitionView", "MakeTensorView", "MakeToken", "Offset", "StorePtr",
    "StoreView",
]  # fmt: skip

_ORDER = EnumCodec(MemoryOrder)
_SCOPE = EnumCodec(MemoryScope)


class MakeToken(
    Op,
    mnemonic="make_token",
    opcode=0x44,
    assembly=": {result:type}",
):
    """A token without predecessors."""

    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (TOKEN,)


class JoinTokens(
    Op,
    mnemonic="join_tokens",
    opcode=0x3C,
    assembly="{tokens} : {result:type}",
):
    """A token ordered after all its operands."""

    tokens: tuple[Value, ...] = operands(default=())
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (TOKEN,)


class MakeTensorView(
    Op,
    mnemonic="make_tensor_view",
    opcode=0x43,
    segmented=True,
    assembly=(
        "tview := {base}, shape = [{to.shape/dynamic_shape}], strides = "
        "[{to.strides/dynamic_strides}] : {?marked_base}{base:type}"
        "{?dynamic_shape+dynamic_strides}, {/}{/}"
        "{?dynamic_shape+dynamic_strides}{dynamic_shape+dynamic_strides:type}{/}"
        "{?marked_base+dynamic_shape+dynamic_strides} -> {/}{result:type}"
    ),
):
    """A tensor in memory: base pointer, and one operand for each dynamic extent and stride."""

    base: Value = operand()
    dynamic_shape: tuple[Value, ...] = operands(default=())
    dynamic_strides: tuple[Value, ...] = operands(default=())
    to: TensorViewType = typed()
    result: Value = defined()

    @property
    def marked_base(self) -> Value | None:
        """The base if its pointer type has attributes, which the result type does not show."""
        pointer = self.base.type.element if isinstance(self.base.type, TileType) else None
        plain = not isinstance(pointer, PtrType) or pointer.attribute is None
        return None if plain else self.base

    def result_types(self) -> tuple[Type, ...]:
        return (self.to,)


class MakePartitionView(
    Op,
    mnemonic="make_partition_view",
    opcode=0x42,
    assembly="pview := {tensor_view} : {result:type}",
):
    """A tensor view cut into tiles."""

    tensor_view: Value = operand()
    to: PartitionViewType = typed()
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (self.to,)


class GetIndexSpaceShape(
    Op,
    mnemonic="get_index_space_shape",
    opcode=0x2D,
    assembly="{src} : {src:type} -> {extents:type}",
):
    """Number of tiles of a view along each axis."""

    src: Value = operand()
    to: TileType = typed(default=scalar(Element.I32))
    extents: tuple[Value, ...] = defined_many()

    def result_types(self) -> tuple[Type, ...]:
        assert isinstance(self.src.type, ViewType)
        return (self.to,) * self.src.type.index_rank


class GetTensorShape(
    Op,
    mnemonic="get_tensor_shape",
    opcode=0x2F,
    assembly="{src} : {src:type} -> {extents:type}",
):
    """The extents of a tensor view."""

    src: Value = operand()
    to: TileType = typed(default=scalar(Element.I32))
    extents: tuple[Value, ...] = defined_many()

    def result_types(self) -> tuple[Type, ...]:
        assert isinstance(self.src.type, TensorViewType)
        return (self.to,) * self.src.type.rank


class LoadView(
    Op,
    mnemonic="load_view_tko",
    opcode=0x3E,
    effect=Effect.READ,
    segmented=True,
    assembly=(
        "{memory_ordering}{?memory_scope} {memory_scope}{/} {view}[{index}]{?token} "
        "token = {token}{/}{?hints} optimization_hints = {hints}{/}{?inbounds} inbounds "
        "= [{inbounds}]{/} : {view:type}, {index:kinds} -> {tile:type}, "
        "{result_token:type}"
    ),
):
    """One tile of a view. An index outside the view's index space is undefined."""

    view: Value = operand()
    index: tuple[Value, ...] = operands(default=())
    token: Value | None = optional_operand(default=None)
    memory_ordering: MemoryOrder = attr(_ORDER, default=MemoryOrder.WEAK)
    memory_scope: MemoryScope | None = attr(_SCOPE, default=None, optional=True)
    hints: TargetHints | None = attr(HintsCodec(), default=None, optional=True)
    inbounds: tuple[bool, ...] = attr(BoolArrayCodec("index"), default=(), since=(13, 4))
    tile: Value = defined()
    result_token: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        assert isinstance(self.view.type, ViewType)
        return self.view.type.tile_type, TOKEN


class StoreView(
    Op,
    mnemonic="store_view_tko",
    opcode=0x66,
    effect=Effect.WRITE,
    segmented=True,
    assembly=(
        "{memory_ordering}{?memory_scope} {memory_scope}{/} {tile}, "
        "{view}[{index}]{?token} token = {token}{/}{?hints} optimization_hints = "
        "{hints}{/}{?inbounds} inbounds = [{inbounds}]{/} : {tile:type}, {view:type}, "
        "{index:kinds} -> {result_token:type}"
    ),
):
    """Write one tile of a view; elements outside the tensor are dropped."""

    tile: Value = operand()
    view: Value = operand()
    index: tuple[Value, ...] = operands(default=())
    token: Value | None = optional_operand(default=None)
    memory_ordering: MemoryOrder = attr(_ORDER, default=MemoryOrder.WEAK)
    memory_scope: MemoryScope | None = attr(_SCOPE, default=None, optional=True)
    hints: TargetHints | None = attr(HintsCodec(), default=None, optional=True)
    inbounds: tuple[bool, ...] = attr(BoolArrayCodec("index"), default=(), since=(13, 4))
    result_token: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (TOKEN,)


class Offset(
    Op,
    mnemonic="offset",
    opcode=0x51,
    assembly="{ptr}, {offset} : {ptr:type}, {offset:type} -> {result:type}",
):
    """Pointers advanced by a number of elements."""

    ptr: Value = operand()
    offset: Value = operand()
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (self.ptr.type,)


class LoadPtr(
    Op,
    mnemonic="load_ptr_tko",
    opcode=0x3D,
    effect=Effect.READ,
    segmented=True,
    assembly=(
        "{memory_ordering}{?memory_scope} {memory_scope}{/} {source}{?mask}, "
        "{mask}{/}{?padding_value}, {padding_value}{/}{?token} token={token}{/}{?hints} "
        "optimization_hints = {hints}{/} : {source:type}{?mask}, "
        "{mask:type}{/}{?padding_value}, {padding_value:type}{/} -> {result:type}, "
        "{result_token:type}"
    ),
):
    """The elements that pointers point to."""

    source: Value = operand()
    mask: Value | None = optional_operand(default=None)
    padding_value: Value | None = optional_operand(default=None)
    token: Value | None = optional_operand(default=None)
    memory_ordering: MemoryOrder = attr(_ORDER, default=MemoryOrder.WEAK)
    memory_scope: MemoryScope | None = attr(_SCOPE, default=None, optional=True)
    hints: TargetHints | None = attr(HintsCodec(), default=None, optional=True)
    result: Value = defined()
    result_token: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return _pointed(self.source), TOKEN


class StorePtr(
    Op,
    mnemonic="store_ptr_tko",
    opcode=0x65,
    effect=Effect.WRITE,
    segmented=True,
    assembly=(
        "{memory_ordering}{?memory_scope} {memory_scope}{/} {destination}, "
        "{value}{?mask}, {mask}{/}{?token} token={token}{/}{?hints} optimization_hints = "
        "{hints}{/} : {destination:type}, {value:type}{?mask}, {mask:type}{/} -> "
        "{result_token:type}"
    ),
):
    """Write the elements that pointers point to."""

    destination: Value = operand()
    value: Value = operand()
    mask: Value | None = optional_operand(default=None)
    token: Value | None = optional_operand(default=None)
    memory_ordering: MemoryOrder = attr(_ORDER, default=MemoryOrder.WEAK)
    memory_scope: MemoryScope | None = attr(_SCOPE, default=None, optional=True)
    hints: TargetHints | None = attr(HintsCodec(), default=None, optional=True)
    result_token: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (TOKEN,)


class AtomicRmw(
    Op,
    mnemonic="atomic_rmw_tko",
    opcode=0x08,
    effect=Effect.WRITE,
    segmented=True,
    assembly=(
        "{memory_ordering} {memory_scope} {pointers}, {mode}, {arg}{?mask}, "
        "{mask}{/}{?token} token={token}{/} : {pointers:type}, {arg:type}{?mask}, "
        "{mask:type}{/} -> {result:type}, {result_token:type}"
    ),
):
    """Read, combine and write back each element; the result is the old value."""

    pointers: Value = operand()
    arg: Value = operand()
    mask: Value | None = optional_operand(default=None)
    token: Value | None = optional_operand(default=None)
    memory_ordering: MemoryOrder = attr(_ORDER, default=MemoryOrder.RELAXED)
    memory_scope: MemoryScope = attr(_SCOPE, default=MemoryScope.DEVICE)
    mode: AtomicMode = attr(EnumCodec(AtomicMode))
    result: Value = defined()
    result_token: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return self.arg.type, TOKEN


class AtomicCas(
    Op,
    mnemonic="atomic_cas_tko",
    opcode=0x07,
    effect=Effect.WRITE,
    segmented=True,
    assembly=(
        "{memory_ordering} {memory_scope} {pointers}, {cmp}, {val}{?mask}, "
        "{mask}{/}{?token} token={token}{/} : {pointers:type}, {val:type}{?mask}, "
        "{mask:type}{/} -> {result:type}, {result_token:type}"
    ),
):
    """Write `val` where memory holds `cmp`; the result is the old value."""

    pointers: Value = operand()
    cmp: Value = operand()
    val: Value = operand()
    mask: Value | None = optional_operand(default=None)
    token: Value | None = optional_operand(default=None)
    memory_ordering: MemoryOrder = attr(_ORDER, default=MemoryOrder.RELAXED)
    memory_scope: MemoryScope = attr(_SCOPE, default=MemoryScope.DEVICE)
    result: Value = defined()
    result_token: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return self.val.type, TOKEN


def _pointed(pointers: Value) -> TileType:
    assert isinstance(pointers.type, TileType)
    assert isinstance(pointers.type.element, PtrType)
    return TileType(pointers.type.element.pointee, pointers.type.shape)
