"""Tensors in a kernel: extents, tile counts, checked indices and loads.

Loads of tiles are in `partitions`, of elements in `gathers`; stores are in `pieces`, `mapped` and
`accumulators`.

Every coordinate of a load goes through `BoundsCheck`; `check` settles it later.
"""

from __future__ import annotations

import ast
import math

from tilewright.check.errors.pieces import PieceIsNoTile
from tilewright.check.errors.types import IndexCount, WrongOperand
from tilewright.dtypes import i32
from tilewright.frontend.calling.arguments import Arguments, Place
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.memory.load_hints import view_hints
from tilewright.frontend.operands.indices import integer_scalar
from tilewright.frontend.operands.operands import (
    Operand,
    RefOperand,
    Static,
    TensorOperand,
    TileOperand,
    TupleOperand,
)
from tilewright.frontend.operands.tiles import (
    check_tile_shape,
    convert,
    is_power_of_two,
    reshaped,
    static_int,
)
from tilewright.frontend.signature.extents import extent_term, tiles_along
from tilewright.ir.attributes import TargetHints
from tilewright.ir.check_sites import CheckSite
from tilewright.ir.op import Value
from tilewright.ir.ops.internal import BoundsCheck
from tilewright.ir.ops.memory import LoadView
from tilewright.ir.types import Padding, TensorViewType

__all__ = [
    "checked",
    "extent_of",
    "loaded",
    "loaded_from",
    "padding_argument",
    "tile_argument",
    "tile_count",
    "whole_tile",
]

# --- counts and extents ---------------------------------------------------------------------------


def extent_of(lo: Lowering, tensor: TensorOperand, axis: int) -> Operand:
    """The extent of an axis: a constant if the signature fixes it."""
    assert isinstance(tensor.view.type, TensorViewType)
    along = tensor.along(axis)
    fixed = tensor.view.type.shape[along]
    if fixed is not None:
        return Static(fixed)
    return TileOperand(lo.launch_value(extent_term(lo, tensor.name, along)), i32)


def tile_count(lo: Lowering, tensor: TensorOperand, axis: int, tile: int) -> Value:
    """Number of tiles of this extent along an axis."""
    return tiles_along(lo, tensor.name, tensor.along(axis), tile)


# --- reading --------------------------------------------------------------------------------------


def tile_argument(
    lo: Lowering, call: Arguments, name: str, rank: int, what: str
) -> tuple[int, ...]:
    """The extents of a tile, one compile-time integer for each axis."""
    places = call.places(name)
    if len(places) == 1 and isinstance(places[0][1], TupleOperand):
        places = tuple((places[0][0], item) for item in places[0][1].items)
    if len(places) != rank:
        nouns = ("extent", "extents")
        lo.reject(IndexCount, call.node, f"a tile of {what}", rank, len(places), nouns)
    return tuple(static_int(lo, node, operand, "a tile extent") for node, operand in places)


_PADDINGS: dict[float, Padding] = {math.inf: Padding.POS_INF, -math.inf: Padding.NEG_INF}


def padding_argument(lo: Lowering, call: Arguments, tensor: RefOperand) -> Padding:
    """The padding of loads: zero or, for floats, one of four more values."""
    operand = call.operand("padding")
    value = operand.value if isinstance(operand, Static) else None
    if not isinstance(value, (int, float)):
        lo.reject(WrongOperand, call.where("padding"), "padding", "it is a constant number")
    padding = _padding_of(value)
    if padding is None:
        lo.reject(
            WrongOperand, call.where("padding"), f"padding with {value}",
            "loads pad with 0 or, for floats, with -0.0, nan, inf or -inf",
            "for another value use tw.where",
        )  # fmt: skip
    dtype = tensor.spec.dtype
    if padding is not Padding.ZERO and dtype.element.is_integer:
        lo.reject(
            WrongOperand, call.where("padding"), f"padding with {value}",
            f"`{tensor.name}` holds {dtype.label}, and integers are padded with 0 only",
            "for another value use tw.where",
        )  # fmt: skip
    return padding


def _padding_of(value: float) -> Padding | None:
    if value == 0:
        return Padding.NEG_ZERO if math.copysign(1.0, value) < 0 else Padding.ZERO
    if value != value:  # only NaN differs from itself
        return Padding.NAN
    return _PADDINGS.get(value)


def checked(lo: Lowering, place: Place, count: Value, site: CheckSite) -> Value:
    """An index that has to lie in [0, count), as an i32: it is checked before it is narrowed."""
    node, operand = place
    with lo.at(node):
        index = integer_scalar(lo, node, operand)
        check = BoundsCheck(index=index.value, count=count, site=site, dtype=index.dtype)
        inside = lo.builder.add(check).result
        inside.hint = index.value.hint
        result = convert(lo, TileOperand(inside, index.dtype), i32).value
    result.hint = index.value.hint
    return result


def loaded(
    lo: Lowering,
    tensor: TensorOperand,
    tile: tuple[int, ...],
    padding: Padding | None,
    index: tuple[Value, ...],
) -> TileOperand:
    """The tile at a checked index; without padding it lies inside."""
    view = lo.partition_view(tensor, tile, padding)
    return loaded_from(lo, view, tensor, index, is_whole=padding is None)


def loaded_from(
    lo: Lowering,
    view: Value,
    tensor: TensorOperand,
    index: tuple[Value, ...],
    hints: TargetHints | None = None,
    *,
    is_whole: bool = False,
) -> TileOperand:
    """The tile of any view of a tensor, at a checked index."""
    index = (*tensor.leading, *index)
    dtype, inbounds = tensor.spec.dtype, (True,) * len(index) if is_whole else ()
    loaded = lo.builder.add(
        LoadView(view=view, index=index, hints=view_hints(lo, hints), inbounds=inbounds)
    )
    loaded.tile.dtype = dtype
    tile = TileOperand(loaded.tile, dtype)
    return reshaped(lo, tile, tile.shape[len(tensor.leading) :]) if tensor.leading else tile


def whole_tile(lo: Lowering, node: ast.AST, piece: TensorOperand) -> tuple[int, ...]:
    """The shape of a whole piece, checked to be that of a tile."""
    whole = piece.spec.tile[len(piece.leading) :]
    tile = tuple(extent for extent in whole if extent is not None)
    if len(tile) < piece.rank or not all(is_power_of_two(extent) for extent in tile):
        lo.reject(PieceIsNoTile, node, piece.name, whole)
    check_tile_shape(lo, node, tile, f"the piece of `{piece.name}`", "", piece.spec.dtype)
    return tile
