"""`tw.argmax` and `tw.argmin`: the index of the greatest or the least element, the first of equals.

A pair of value and index is reduced. NaN counts as the worst number (the best with `nan=True`),
with its index moved by the extent of the axis: after every real infinity, or before it. The extent
is a power of two, so the low bits of the index are the answer either way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from tilewright.dtypes import DType, bool_, i32, limits
from tilewright.frontend.builtins.axes import axis_argument, flag_argument, flattened, kept
from tilewright.frontend.builtins.folding import Fold, Scalars
from tilewright.frontend.builtins.maths import check_floats
from tilewright.frontend.calling.arguments import Arguments
from tilewright.frontend.expressions.conversions import convert
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.abilities import check_computes
from tilewright.frontend.operands.operands import Operand, TileOperand
from tilewright.frontend.operands.tiles import as_tile, broadcast_to, reshaped, signedness
from tilewright.ir.attributes import Ordering, Predicate
from tilewright.ir.op import Op, Value
from tilewright.ir.ops.elementwise import AddI, AndI, CmpF, CmpI, OrI, Select
from tilewright.ir.ops.shape import Iota
from tilewright.ir.types import TileType

__all__ = ["lower_argmax", "lower_argmin"]


@dataclass(frozen=True)
class _ExtremeSearch:
    """A search for an extremum."""

    name: str
    wins: Predicate
    worst: Callable[[type[DType]], float]


_GREATEST = _ExtremeSearch(
    "tw.argmax",
    Predicate.GREATER_THAN,
    lambda d: -math.inf if d.element.is_float else limits(d)[0],
)
_LEAST = _ExtremeSearch(
    "tw.argmin",
    Predicate.LESS_THAN,
    lambda d: math.inf if d.element.is_float else limits(d)[1],
)


def lower_argmax(lo: Lowering, call: Arguments) -> Operand:
    """`tw.argmax(x, axis=…)`."""
    return _found(lo, call, _GREATEST)


def lower_argmin(lo: Lowering, call: Arguments) -> Operand:
    """`tw.argmin(x, axis=…)`."""
    return _found(lo, call, _LEAST)


def _found(lo: Lowering, call: Arguments, search: _ExtremeSearch) -> Operand:
    given = as_tile(lo, call.where("x"), call.operand("x"))
    check_computes(lo, call.where("x"), search.name, given.dtype)
    nan_wins = flag_argument(lo, call, "nan")
    if nan_wins:
        check_floats(lo, call.where("x"), f"{search.name} with nan=", given)
    asked = axis_argument(lo, call, given)
    axis = asked or 0
    tile = flattened(lo, given) if asked is None else given
    if tile.dtype is bool_:
        tile = convert(lo, tile, i32)
    places = _places(lo, tile, axis)
    if tile.dtype.element.is_float:
        side = -1 if nan_wins else 1
        stand_in, move = side * search.worst(tile.dtype), side * tile.shape[axis]
        tile, places = _without_nan(lo, tile, places, stand_in, move)
    fold = _fold(lo, search, tile.dtype)
    _, found = fold.reduced((tile, places), axis)
    found = _low_bits(lo, found, tile.shape[axis])
    if not flag_argument(lo, call, "keepdims"):
        return found
    axes = tuple(range(len(given.shape))) if asked is None else (axis,)
    return kept(lo, found, given.shape, axes)


def _places(lo: Lowering, tile: TileOperand, axis: int) -> TileOperand:
    """The index of every element along the axis."""
    extent = tile.shape[axis]
    counted = lo.builder.add(Iota(to=TileType(i32.element, (extent,)), dtype=i32)).result
    shape = tuple(extent if a == axis else 1 for a in range(len(tile.shape)))
    return broadcast_to(lo, reshaped(lo, TileOperand(counted, i32), shape), tile.shape)


def _without_nan(
    lo: Lowering, tile: TileOperand, places: TileOperand, stand_in: float, move: int
) -> tuple[TileOperand, TileOperand]:
    """The same search with NaN replaced by a number at a moved index."""
    unordered = Ordering.UNORDERED
    is_nan = _added(
        lo,
        CmpF(
            lhs=tile.value, rhs=tile.value, comparison_predicate=Predicate.NOT_EQUAL,
            comparison_ordering=unordered, dtype=bool_,
        ),
    )  # fmt: skip
    moved = _added(lo, AddI(lhs=places.value, rhs=_filled(lo, places, move)))
    return (
        _chosen(lo, is_nan, _filled(lo, tile, stand_in), tile.value, tile.dtype),
        _chosen(lo, is_nan, moved, places.value, i32),
    )


def _fold(lo: Lowering, search: _ExtremeSearch, dtype: type[DType]) -> Fold:
    """The better of two; of equals the earlier."""

    def combine(before: Scalars, element: Scalars) -> list[TileOperand]:
        (best, where), (value, place) = before, element
        better = _compared(lo, value, search.wins, best)
        equal = _compared(lo, value, Predicate.EQUAL, best)
        earlier = _compared(lo, place, Predicate.LESS_THAN, where)
        first = _added(lo, AndI(lhs=equal, rhs=earlier))
        wins = _added(lo, OrI(lhs=better, rhs=first))
        return [
            _chosen(lo, wins, value.value, best.value, dtype),
            _chosen(lo, wins, place.value, where.value, i32),
        ]

    return Fold(lo, combine, (search.worst(dtype), limits(i32)[1]))


def _low_bits(lo: Lowering, places: TileOperand, extent: int) -> TileOperand:
    mask = _filled(lo, places, extent - 1)
    return TileOperand(_added(lo, AndI(lhs=places.value, rhs=mask, dtype=i32)), i32)


def _filled(lo: Lowering, like: TileOperand, number: float) -> Value:
    return lo.builder.constant(number, like.dtype.element, like.shape, like.dtype)


def _compared(lo: Lowering, lhs: TileOperand, predicate: Predicate, rhs: TileOperand) -> Value:
    left, right = lhs.value, rhs.value
    if lhs.dtype.element.is_float:
        return _added(lo, CmpF(lhs=left, rhs=right, comparison_predicate=predicate, dtype=bool_))
    sign = signedness(lhs.dtype)
    made = CmpI(lhs=left, rhs=right, comparison_predicate=predicate, signedness=sign, dtype=bool_)
    return _added(lo, made)


def _chosen(
    lo: Lowering, condition: Value, yes: Value, no: Value, dtype: type[DType]
) -> TileOperand:
    op = Select(cond=condition, val_if_true=yes, val_if_false=no, dtype=dtype)
    return TileOperand(_added(lo, op), dtype)


def _added(lo: Lowering, op: Op) -> Value:
    return lo.builder.add(op).results[0]
