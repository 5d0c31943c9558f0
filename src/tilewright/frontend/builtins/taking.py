"""`tw.take_along_axis`: elements of a tile by their indices along an axis.

Tile IR has no op that moves elements by a value. So each index is compared with those of a few
elements at a time, and the bits of the match are kept: a loop over parts of the tile, with as many
comparisons as indices times elements. An index outside matches no element.
"""

from __future__ import annotations

from math import prod

from tilewright.check.errors.types import WrongOperand
from tilewright.dtypes import INTEGERS_OF_WIDTH, DType, bool_, f16, f32, i4, i8, i16, i32, tf32
from tilewright.frontend.builtins.axes import axis_argument
from tilewright.frontend.builtins.folding import Combine, Fold, Scalars
from tilewright.frontend.calling.arguments import Arguments
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.indices import integer_tile
from tilewright.frontend.operands.operands import Operand, TileOperand
from tilewright.frontend.operands.tile_formulas import TileFormula, compared_at_once, repeated
from tilewright.frontend.operands.tiles import as_tile
from tilewright.ir.ops.elementwise import OrI

__all__ = ["lower_take_along_axis"]


def lower_take_along_axis(lo: Lowering, call: Arguments) -> Operand:
    """`tw.take_along_axis(x, indices, axis, padding=…)`."""
    name = "tw.take_along_axis"
    tile = as_tile(lo, call.where("x"), call.operand("x"))
    indices = integer_tile(lo, call.where("indices"), call.operand("indices"))
    axis = axis_argument(lo, call, tile)
    if axis is None:
        lo.reject(WrongOperand, call.where("axis"), name, "it needs one axis")
    extents = [*tile.shape]
    if len(indices.shape) == len(extents):
        extents[axis] = indices.shape[axis]
    if indices.shape != tuple(extents):
        reason = f"shapes {tile.shape} and {indices.shape} differ in another axis than {axis}"
        way_out = "bring the indices into the shape of the tile: `.broadcast_to(…)`"
        lo.reject(WrongOperand, call.where("indices"), name, reason, way_out)
    padding = as_tile(lo, call.where("padding"), call.operand("padding"), tile.dtype)
    if padding.dtype is not tile.dtype or padding.shape:
        reason = f"it is one number of {tile.dtype.label}; this is {padding}"
        lo.reject(WrongOperand, call.where("padding"), "padding", reason)
    return _taken(TileFormula(lo, call.node, tile), indices, axis, padding)


def _taken(x: TileFormula, indices: TileOperand, axis: int, padding: TileOperand) -> Operand:
    """The matching bits, as [before, places, behind]; elsewhere the padding."""
    shape, dtype = indices.shape, x.dtype
    before, behind = prod(shape[:axis]), prod(shape[axis + 1 :])
    bits = _bits(x).reshaped(before, x.shape[axis], behind)
    places = x.like(indices).reshaped(before, shape[axis], behind)
    found = _matched(bits, places)
    values = _read_back(found.reshaped(*shape), dtype)
    flat = x.like(indices)
    inside = (flat >= 0) & (flat < x.shape[axis]) if indices.dtype.signed else flat < x.shape[axis]
    return values.where(inside, x.like(padding)).tile


def _bits(x: TileFormula) -> TileFormula:
    """Elements as integers, by their bits; those without bits of their own as wider ones."""
    if x.dtype in (bool_, i4):
        return x.astype(i8)
    if x.dtype.element.bits == 4:
        return x.astype(f16).bits_as(i16)
    if x.dtype is tf32:
        return x.astype(f32).bits_as(i32)
    return x.bits_as(INTEGERS_OF_WIDTH[x.dtype.element.bits])


def _read_back(bits: TileFormula, dtype: type[DType]) -> TileFormula:
    if dtype in (bool_, i4):
        return bits.astype(dtype)
    if dtype.element.bits == 4:
        return bits.bits_as(f16).astype(dtype)
    if dtype is tf32:
        return bits.bits_as(f32).astype(dtype)
    return bits.bits_as(dtype)


# --- a loop over parts of the tile ----------------------------------------------------------------


def _matched(bits: TileFormula, places: TileFormula) -> TileFormula:
    """The bits at each index: all matches, of which there is at most one, joined by `|`."""
    lo, (before, extent, behind) = bits.lo, bits.shape
    number = places.shape[1]
    width = compared_at_once(extent, prod(places.shape))
    wanted = places.reshaped(before, number, 1, behind)

    def turn(counter: TileFormula, total: TileFormula) -> TileFormula:
        index = (lo.builder.index(0), counter.tile.value, lo.builder.index(0))
        some = bits.part((before, width, behind), index)
        numbers = (counter * width + counter.counted(width)).astype(places.dtype)
        is_here = wanted.equals(numbers.reshaped(1, 1, width, 1))
        kept = some.reshaped(before, 1, width, behind).where(is_here, 0)
        (matched,) = Fold(lo, _either(lo), (0,)).reduced((kept.tile,), 2)
        return total | bits.like(matched)

    nothing = lo.builder.constant(0, bits.dtype.element, places.shape, bits.dtype)
    return repeated(extent // width, bits.like(TileOperand(nothing, bits.dtype)), turn)


def _either(lo: Lowering) -> Combine:
    def combine(before: Scalars, element: Scalars) -> list[TileOperand]:
        ((left,), (right,)) = before, element
        made = OrI(lhs=left.value, rhs=right.value, dtype=left.dtype)
        return [TileOperand(lo.builder.add(made).result, left.dtype)]

    return combine
