"""Tensors in a kernel: partitions, loads, stores, pieces and walks.

Every coordinate of a load goes through `BoundsCheck`; whether that costs anything is decided later.
A store to a piece has no coordinate, and a store to a walked output takes a minted one.
"""

from __future__ import annotations

import ast
import math

from tilewright.check.errors.ownership import (
    ForeignIndex,
    IndexedPieceStore,
    IndexOutlivesLoop,
    NotAMintedIndex,
    StoreToShared,
)
from tilewright.check.errors.syntax import BadCall
from tilewright.check.errors.types import (
    IndexCount,
    NotPowerOfTwo,
    WrongOperand,
    WrongStoreDType,
    WrongStoreShape,
)
from tilewright.dtypes import i32
from tilewright.frontend.arguments import Arguments
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands import (
    MappedOperand,
    Minted,
    Operand,
    PartitionOperand,
    PieceOperand,
    PiecePartition,
    RefOperand,
    Static,
    TensorOperand,
    TileOperand,
    TupleOperand,
    WalkRange,
)
from tilewright.frontend.tiles import (
    as_index,
    as_tile,
    check_tile_shape,
    is_power_of_two,
    static_int,
)
from tilewright.ir.attributes import Predicate
from tilewright.ir.launch_terms import Extent, TileCount
from tilewright.ir.op import Value
from tilewright.ir.ops.elementwise import AddI, CmpI, MinI, MulI, SubI
from tilewright.ir.ops.internal import BoundsCheck, CheckSite, Require
from tilewright.ir.ops.memory import LoadView, StoreView
from tilewright.ir.types import Padding, TensorViewType

__all__ = [
    "extent_of",
    "load_like",
    "load_mapped",
    "load_part",
    "load_piece",
    "load_tile",
    "part_count",
    "partition",
    "partition_piece",
    "refuse_store",
    "store_mapped",
    "store_part",
    "store_piece",
    "tile_count",
    "walk",
]

_PIECE_WAY_OUT = (
    "take the piece in parts that are: `p = {name}.partition(sub…)`, then `p.store(tile, i)`"
)


# --- counts and extents ---------------------------------------------------------------------------


def extent_of(lo: Lowering, tensor: TensorOperand, axis: int) -> Operand:
    """Elements along an axis: a constant if the signature fixes it."""
    assert isinstance(tensor.view.type, TensorViewType)
    fixed = tensor.view.type.shape[axis]
    if fixed is not None:
        return Static(fixed)
    return TileOperand(lo.launch_value(canonical_extent(lo, tensor.name, axis)), i32)


def canonical_extent(lo: Lowering, name: str, axis: int) -> Extent:
    """The one term for an extent that several axes share by name."""
    param = lo.signature.param(name)
    dims = getattr(param, "dims", ())
    if name in {ref.name for ref, _, _ in lo.signature.ref_axes()} and isinstance(dims[axis], str):
        return Extent(*lo.signature.homes.get(dims[axis], (name, axis)))
    return Extent(name, axis)


def tile_count(lo: Lowering, tensor: TensorOperand, axis: int, tile: int) -> Value:
    """How many tiles of this extent an axis has."""
    assert isinstance(tensor.view.type, TensorViewType)
    fixed = tensor.view.type.shape[axis]
    if fixed is not None:
        return lo.builder.index(-(-fixed // tile))
    home = canonical_extent(lo, tensor.name, axis)
    return lo.launch_value(TileCount(home.param, home.axis, tile))


# --- reading --------------------------------------------------------------------------------------


def partition(lo: Lowering, tensor: RefOperand, call: Arguments) -> Operand:
    """`x.partition(BM, BK, padding=…)`."""
    tile = _tile_argument(lo, call, "tile", tensor.rank, f"`{tensor.name}.partition`")
    check_tile_shape(lo, call.node, tile, "a tile", "round it up: loads pad what lies outside")
    return PartitionOperand(tensor, tile, _padding(lo, call))


def _tile_argument(
    lo: Lowering, call: Arguments, name: str, rank: int, what: str
) -> tuple[int, ...]:
    operands = call.operands(name)
    if len(operands) == 1 and isinstance(operands[0], TupleOperand):
        operands = operands[0].items
    if len(operands) != rank:
        lo.reject(IndexCount, call.node, f"{what}: a tensor of rank {rank}", rank, len(operands))
    return tuple(static_int(lo, call.node, operand, "a tile extent") for operand in operands)


_PADDINGS: dict[float, Padding] = {math.inf: Padding.POS_INF, -math.inf: Padding.NEG_INF}


def _padding(lo: Lowering, call: Arguments) -> Padding:
    """What loads give outside the tensor: one of five values."""
    operand = call.operand("padding")
    value = operand.value if isinstance(operand, Static) else None
    if not isinstance(value, (int, float)):
        lo.reject(WrongOperand, call.where("padding"), "padding", "it is a constant number")
    if value == 0:
        return Padding.NEG_ZERO if math.copysign(1.0, value) < 0 else Padding.ZERO
    if math.isnan(value):
        return Padding.NAN
    if value not in _PADDINGS:
        lo.reject(
            WrongOperand, call.where("padding"), f"padding with {value}",
            "loads pad with 0, -0.0, nan, inf or -inf", "for another value use tw.where",
        )  # fmt: skip
    return _PADDINGS[value]


def load_tile(
    lo: Lowering, node: ast.AST, source: PartitionOperand, indices: tuple[Operand, ...]
) -> Operand:
    """`p[i, j]`, each coordinate checked."""
    tensor = source.tensor
    if len(indices) != tensor.rank:
        lo.reject(IndexCount, node, str(source), tensor.rank, len(indices))
    checked = tuple(
        _checked(lo, as_index(lo, node, index), tile_count(lo, tensor, axis, source.tile[axis]),
                 CheckSite(tensor.name, axis, source.tile[axis]))
        for axis, index in enumerate(indices)
    )  # fmt: skip
    return _loaded(lo, tensor, source.tile, source.padding, checked)


def _checked(lo: Lowering, index: Value, count: Value, site: CheckSite) -> Value:
    checked = lo.builder.add(BoundsCheck(index=index, count=count, site=site, dtype=i32)).result
    checked.hint = index.hint
    return checked


def _loaded(
    lo: Lowering,
    tensor: TensorOperand,
    tile: tuple[int, ...],
    padding: Padding,
    index: tuple[Value, ...],
) -> TileOperand:
    dtype = tensor.spec.dtype
    # Integers have no infinities or signed zeros: Tile IR pads them with zero only.
    usable = padding if dtype.element.is_float else Padding.ZERO
    view = lo.partition_view(tensor, tile, usable)
    loaded = lo.builder.add(LoadView(view=view, index=index))
    loaded.tile.dtype = dtype
    return TileOperand(loaded.tile, dtype)


def load_like(lo: Lowering, tensor: RefOperand, call: Arguments) -> Operand:
    """`x.load_like(z)`: the part of x that lies where this block's piece of z lies."""
    piece = call.operand("output")
    if not isinstance(piece, PieceOperand):
        lo.reject(
            WrongOperand,
            call.where("output"),
            f"`{tensor.name}.load_like`",
            f"it takes a Mut output; this is a {piece.kind}",
        )
    if piece.rank != tensor.rank:
        lo.reject(
            WrongOperand,
            call.node,
            f"`{tensor.name}.load_like({piece.name})`",
            f"their ranks {tensor.rank} and {piece.rank} differ",
        )
    _check_piece_shape(lo, call.node, piece)
    for axis in range(tensor.rank):
        _require_equal_extents(lo, tensor, piece, axis)
    checked = tuple(
        _checked(
            lo,
            index,
            tile_count(lo, tensor, axis, piece.tile[axis]),
            CheckSite(tensor.name, axis, piece.tile[axis]),
        )
        for axis, index in enumerate(piece.index)
    )
    return _loaded(lo, tensor, piece.tile, _padding(lo, call), checked)


def _require_equal_extents(
    lo: Lowering, tensor: RefOperand, piece: PieceOperand, axis: int
) -> None:
    """The launch checks that both tensors end at the same place."""
    left, right = (
        as_tile(lo, ast.Pass(), extent_of(lo, t, axis), i32).value for t in (tensor, piece)
    )
    same = CmpI(lhs=left, rhs=right, comparison_predicate=Predicate.EQUAL)
    condition = lo.builder.add(same).result
    x, z = tensor.name, piece.name
    text = f"{x}.shape[{axis}] == {z}.shape[{axis}], since {x} is read like {z}"
    lo.builder.add(Require(condition=condition, text=text))


# --- this block's piece ---------------------------------------------------------------------------


def _check_piece_shape(lo: Lowering, node: ast.AST, piece: TensorOperand) -> None:
    tile = piece.spec.tile
    if not all(is_power_of_two(extent) for extent in tile):
        lo.reject(
            NotPowerOfTwo,
            node,
            f"the piece of `{piece.name}`",
            tile,
            _PIECE_WAY_OUT.format(name=piece.name),
        )
    check_tile_shape(lo, node, tile, f"the piece of `{piece.name}`", "")


def load_piece(lo: Lowering, piece: PieceOperand, call: Arguments) -> Operand:
    """`z.load()`: what the piece holds now."""
    _check_piece_shape(lo, call.node, piece)
    return _loaded(lo, piece, piece.tile, Padding.ZERO, piece.index)


def store_piece(lo: Lowering, piece: PieceOperand, call: Arguments) -> Operand:
    """`z.store(tile)`."""
    _check_piece_shape(lo, call.node, piece)
    tile = _storable(lo, call, piece, piece.tile)
    _store(lo, piece, piece.tile, tile, piece.index)
    return Static(None)


def refuse_indexed_store(lo: Lowering, node: ast.Call, piece: PieceOperand) -> None:
    """A store to a piece with more than the tile names a place, which is not its to choose."""
    if len(node.args) > 1:
        lo.reject(IndexedPieceStore, node.args[1], piece.name, piece.rank)


def refuse_store(lo: Lowering, node: ast.AST, name: str) -> Operand:
    """A store to something shared."""
    lo.reject(StoreToShared, node, name)


def _storable(
    lo: Lowering, call: Arguments, output: TensorOperand, shape: tuple[int, ...]
) -> TileOperand:
    where, dtype = call.where("tile"), output.spec.dtype
    operand = call.operand("tile")
    tile = as_tile(lo, where, operand, dtype)
    if tile.dtype is not dtype:
        lo.reject(WrongStoreDType, where, output.name, dtype.label, tile.dtype.label)
    if tile.shape != shape:
        lo.reject(WrongStoreShape, where, output.name, shape, tile.shape)
    return tile


def _store(
    lo: Lowering,
    output: TensorOperand,
    shape: tuple[int, ...],
    tile: TileOperand,
    index: tuple[Value, ...],
) -> None:
    view = lo.partition_view(output, shape, None)
    lo.builder.add(StoreView(tile=tile.value, view=view, index=index))


# --- parts of a piece -----------------------------------------------------------------------------


def partition_piece(lo: Lowering, piece: PieceOperand, call: Arguments) -> Operand:
    """`z.partition(sub…)`: parts that divide this block's piece."""
    sub = _tile_argument(lo, call, "part", piece.rank, f"`{piece.name}.partition`")
    check_tile_shape(lo, call.node, sub, "a part", "use powers of two that divide the piece")
    for axis, (whole, part) in enumerate(zip(piece.tile, sub, strict=True)):
        if whole % part:
            lo.reject(
                BadCall, call.node, f"`{piece.name}.partition`",
                f"parts of {part} do not divide the piece of {whole} along axis {axis}",
                "a part that reached past the piece would belong to another block",
            )  # fmt: skip
    origin, counts = [], []
    for axis, (whole, part) in enumerate(zip(piece.tile, sub, strict=True)):
        first, count = _parts_along(lo, piece, axis, whole // part, part)
        origin.append(first)
        counts.append(count)
    return PiecePartition(piece, sub, tuple(counts), tuple(origin))


def _parts_along(
    lo: Lowering, piece: PieceOperand, axis: int, parts: int, part: int
) -> tuple[Value, Value]:
    """The first part of the piece, and how many of its parts begin inside the tensor."""
    add = lo.builder.add
    if parts == 1:
        return piece.index[axis], lo.builder.index(1)
    per_piece = lo.builder.index(parts)
    first = add(MulI(lhs=piece.index[axis], rhs=per_piece, dtype=i32)).result
    remaining = add(SubI(lhs=tile_count(lo, piece, axis, part), rhs=first, dtype=i32)).result
    return first, add(MinI(lhs=per_piece, rhs=remaining, dtype=i32)).result


def part_count(lo: Lowering, parts: PiecePartition, axis: int) -> Value:
    """How many parts begin inside the tensor."""
    return parts.counts[axis]


def _part_index(
    lo: Lowering,
    node: ast.AST,
    parts: PiecePartition,
    indices: tuple[Operand, ...],
    *,
    is_store: bool,
) -> tuple[Value, ...]:
    if len(indices) != parts.piece.rank:
        lo.reject(IndexCount, node, str(parts), parts.piece.rank, len(indices))
    found = []
    for axis, index in enumerate(indices):
        site = CheckSite(parts.piece.name, axis, parts.tile[axis], is_store)
        own = _checked(lo, as_index(lo, node, index), parts.counts[axis], site)
        found.append(lo.builder.add(AddI(lhs=parts.origin[axis], rhs=own, dtype=i32)).result)
    return tuple(found)


def load_part(
    lo: Lowering, node: ast.AST, parts: PiecePartition, indices: tuple[Operand, ...]
) -> Operand:
    """`p[i, j]` of this block's own piece."""
    index = _part_index(lo, node, parts, indices, is_store=False)
    return _loaded(lo, parts.piece, parts.tile, Padding.ZERO, index)


def store_part(lo: Lowering, parts: PiecePartition, call: Arguments) -> Operand:
    """`p.store(tile, i, j)` into this block's own piece."""
    tile = _storable(lo, call, parts.piece, parts.tile)
    index = _part_index(lo, call.node, parts, call.operands("index"), is_store=True)
    _store(lo, parts.piece, parts.tile, tile, index)
    return Static(None)


# --- walked outputs -------------------------------------------------------------------------------


def walk(lo: Lowering, output: MappedOperand, call: Arguments) -> Operand:
    """`z.indices()`."""
    return WalkRange(output, lo.span(call.node))


def _minted_for(lo: Lowering, output: MappedOperand, call: Arguments) -> tuple[Value, ...]:
    at = call.operand("at")
    if not isinstance(at, Minted):
        lo.reject(NotAMintedIndex, call.where("at"), output.name, f"a {at.kind}")
    if at.output != output.name:
        lo.reject(ForeignIndex, call.where("at"), at.output, output.name, at.span)
    if not at.open:
        lo.reject(IndexOutlivesLoop, call.where("at"), output.name, at.span)
    return tuple(coordinate.value for coordinate in at.coordinates)


def store_mapped(lo: Lowering, output: MappedOperand, call: Arguments) -> Operand:
    """`z.store(tile, at)`."""
    index = _minted_for(lo, output, call)
    _check_piece_shape(lo, call.node, output)
    tile = _storable(lo, call, output, output.tile)
    _store(lo, output, output.tile, tile, index)
    return Static(None)


def load_mapped(lo: Lowering, output: MappedOperand, call: Arguments) -> Operand:
    """`z.load(at)`: what this block's tile holds now."""
    index = _minted_for(lo, output, call)
    _check_piece_shape(lo, call.node, output)
    return _loaded(lo, output, output.tile, Padding.ZERO, index)
