"""Attributes and methods of operands, by the kind of operand.

A method's parameters are those of its declaration in `lang`; here is its lowering.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from tilewright.check.errors.names import UnknownAttribute
from tilewright.check.errors.ownership import NoWalk
from tilewright.check.errors.syntax import BadCall
from tilewright.check.errors.types import NoSuchAxis
from tilewright.dtypes import i32
from tilewright.frontend.calling.arguments import Arguments, bind, method_signature
from tilewright.frontend.calling.constant_functions import method_of_constant
from tilewright.frontend.control import walks
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.memory import (
    accumulators,
    gathers,
    mapped,
    partitions,
    pieces,
    pointers,
    scatters,
    stores,
    tensors,
    unchecked,
)
from tilewright.frontend.operands import tile_methods
from tilewright.frontend.operands.aggregates import Aggregate
from tilewright.frontend.operands.operands import (
    AccumOperand,
    DTypeOperand,
    MappedOperand,
    Method,
    Operand,
    PartitionOperand,
    PieceOperand,
    PiecePartition,
    PointerOperand,
    RefOperand,
    SegmentedPiece,
    Static,
    TensorOperand,
    TileOperand,
    TupleOperand,
)
from tilewright.frontend.operands.records import member
from tilewright.frontend.operands.tiles import static_int
from tilewright.frontend.source.captured_values import captured
from tilewright.frontend.source.foreign_names import method_hint
from tilewright.ir.op import Value
from tilewright.lang.accumulator import Accum
from tilewright.lang.annotations import Mapped, Mut, MutPartition, Partition, Ref
from tilewright.lang.pointers import Ptr
from tilewright.lang.tile import Tile

__all__ = ["attribute_of"]

Property = Callable[[Lowering, Any], Operand]
MethodRule = Callable[[Lowering, Any, Arguments], Operand]


def attribute_of(lo: Lowering, node: ast.Attribute, owner: Operand, name: str) -> Operand:
    """`owner.name`."""
    if isinstance(owner, Aggregate):
        return member(lo, node, owner, name)
    if isinstance(owner, Static) and owner.member is not None and name in ("name", "value"):
        return captured(lo, node, f"{owner}.{name}", getattr(owner.member, f"_{name}_"))
    of_constant = method_of_constant(owner, name)
    if of_constant is not None:
        return of_constant
    properties = _PROPERTIES.get(type(owner), {})
    if name in properties:
        return properties[name](lo, owner)
    declaration, methods = _METHODS.get(type(owner), (object, {}))
    if name in methods:
        return _method(owner, declaration, name, methods[name])
    if name == "store" and isinstance(owner, (RefOperand, PartitionOperand)):
        tensor = owner if isinstance(owner, RefOperand) else owner.tensor
        stores.refuse_store(lo, node, tensor.name)
    if name.startswith("indices") and isinstance(owner, PieceOperand):
        lo.reject(NoWalk, node, owner.name)
    if name in ("partition", "load_like") and isinstance(owner, MappedOperand):
        way_out = f"`for at in {owner.name}.indices():` … `{owner.name}.store(tile, at)`"
        lo.reject(BadCall, node, f"{owner.name}.{name}", "a Mapped is used tile by tile", way_out)
    if isinstance(owner, AccumOperand) and name in accumulators.REFUSED:
        accumulators.REFUSED[name](lo, node, owner)
    receiver = ast.unparse(node.value) if isinstance(node.value, ast.Name) else "t"
    hint = method_hint(name, receiver, is_tile=isinstance(owner, TileOperand))
    lo.reject(UnknownAttribute, node, str(owner), name, (*properties, *methods), hint)


def _method(owner: Operand, declaration: type, name: str, rule: MethodRule) -> Method:
    def lower(lo: Lowering, node: ast.Call) -> Operand:
        if isinstance(owner, PieceOperand) and name == "store":
            pieces.refuse_indexed_store(lo, node, owner)
        arguments = bind(lo, node, _called(node, name), method_signature(declaration, name))
        return rule(lo, owner, arguments)

    return Method(name, owner, lower)


def _called(node: ast.Call, name: str) -> str:
    """The callee as in the source, if that is short."""
    function = node.func
    is_short = isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name)
    return ast.unparse(function) if is_short else f".{name}"


# --- properties -----------------------------------------------------------------------------------


def _static_tuple(numbers: tuple[int, ...]) -> TupleOperand:
    return TupleOperand(tuple(Static(number) for number in numbers))


def _tensor_shape(lo: Lowering, owner: TensorOperand) -> Operand:
    return TupleOperand(tuple(tensors.extent_of(lo, owner, axis) for axis in range(owner.rank)))


def _piece_index(_: Lowering, owner: PieceOperand) -> Operand:
    return TupleOperand(tuple(TileOperand(index, i32) for index in owner.index))


def _tile_of(lo: Lowering, owner: Any) -> Operand:
    extents = enumerate(owner.tile)
    return TupleOperand(
        tuple(tensors.extent_of(lo, owner, a) if n is None else Static(n) for a, n in extents)
    )


def _dtype_of_tensor(_: Lowering, owner: Any) -> Operand:
    return DTypeOperand(owner.spec.dtype)


def _segmented_index(lo: Lowering, owner: SegmentedPiece) -> Operand:
    places = (*owner.place, *owner.index[1:])
    return TupleOperand(tuple(TileOperand(place, i32) for place in places))


_OF_PIECES: dict[str, Property] = {
    "shape": _tensor_shape,
    "tile": _tile_of,
    "rows": pieces.rows_of_piece,
    "segment": pieces.segment_of_piece,
    "segments": pieces.segments_of_piece,
    "dtype": _dtype_of_tensor,
}

_PROPERTIES: dict[type, dict[str, Property]] = {
    TileOperand: {
        "shape": lambda _, tile: _static_tuple(tile.shape),
        "dtype": lambda _, tile: DTypeOperand(tile.dtype),
        "T": tile_methods.transposed,
    },
    PointerOperand: {
        "shape": lambda _, pointers: _static_tuple(pointers.shape),
        "dtype": lambda _, pointers: DTypeOperand(pointers.dtype),
    },
    RefOperand: {"shape": _tensor_shape, "dtype": _dtype_of_tensor},
    PieceOperand: {**_OF_PIECES, "index": _piece_index},
    SegmentedPiece: {**_OF_PIECES, "index": _segmented_index},
    MappedOperand: {"shape": _tensor_shape, "tile": _tile_of, "dtype": _dtype_of_tensor},
    AccumOperand: {"shape": _tensor_shape, "dtype": _dtype_of_tensor},
    PartitionOperand: {},
    PiecePartition: {},
}


# --- methods --------------------------------------------------------------------------------------


def _counted(
    count: Callable[[Lowering, Any, int], Value], rank: Callable[[Any], int]
) -> MethodRule:
    def rule(lo: Lowering, owner: Any, call: Arguments) -> Operand:
        axis = static_int(lo, call.where("axis"), call.operand("axis"), "an axis")
        if not 0 <= axis < rank(owner):
            lo.reject(NoSuchAxis, call.where("axis"), str(owner), axis, rank(owner))
        value = count(lo, owner, axis)
        return TileOperand(value, i32)

    return rule


_OF_MUT: tuple[type, dict[str, MethodRule]] = (
    Mut,
    {
        "store": pieces.store_piece,
        "load": pieces.load_piece,
        "partition": pieces.partition_piece,
        "scatter": scatters.scatter,
    },
)

_METHODS: dict[type, tuple[type, dict[str, MethodRule]]] = {
    TileOperand: (
        Tile,
        {
            "astype": tile_methods.astype,
            "reshape": tile_methods.reshape,
            "permute": tile_methods.permute,
            "broadcast_to": tile_methods.broadcast,
            "item": tile_methods.item,
        },
    ),
    PointerOperand: (
        Ptr,
        {"reshape": pointers.reshape_pointers, "broadcast_to": pointers.broadcast_pointers},
    ),
    RefOperand: (
        Ref,
        {
            "partition": partitions.partition,
            "windows": partitions.windows,
            "load_like": pieces.load_like,
            "gather": gathers.gather,
            "item": gathers.item,
        },
    ),
    AccumOperand: (Accum, accumulators.ACCUMULATIONS),
    PartitionOperand: (
        Partition,
        {
            "load": partitions.load,
            "num_tiles": _counted(partitions.count_along, lambda owner: owner.rank),
            "clip": partitions.clip,
            "load_unchecked": unchecked.load_tile_unchecked,
        },
    ),
    PieceOperand: _OF_MUT,
    SegmentedPiece: _OF_MUT,
    PiecePartition: (
        MutPartition,
        {
            "store": pieces.store_part,
            "num_tiles": _counted(pieces.part_count, lambda owner: owner.piece.rank),
            "load_unchecked": unchecked.load_part_unchecked,
            "store_unchecked": unchecked.store_part_unchecked,
        },
    ),
    MappedOperand: (
        Mapped,
        {
            "indices": walks.indices,
            "indices_with": walks.indices_with,
            "indices_within": walks.indices_within,
            "store": mapped.store_mapped,
            "load": mapped.load_mapped,
            "piece": mapped.piece_of_walk,
        },
    ),
}
