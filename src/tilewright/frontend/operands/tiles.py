"""Coercion of operands to tiles: dtypes of literals, and broadcasting."""

from __future__ import annotations

import ast
import math
from math import prod

import numpy as np

from tilewright.check.errors.ownership import IndexArithmetic
from tilewright.check.errors.types import (
    LiteralDoesNotFit,
    MixedDTypes,
    NotBroadcastable,
    NotPowerOfTwo,
    NotStatic,
    TileTooLarge,
    UnsupportedByTarget,
    WrongOperand,
)
from tilewright.dtypes import DType, bool_, f4e2m1fn, f8e8m0fnu, f32, i4, i8, i32, limits
from tilewright.frontend.expressions.conversions import convert, signedness
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.operands import (
    AccumOperand,
    ChosenNumbers,
    DTypeOperand,
    MappedOperand,
    Minted,
    Operand,
    PartitionOperand,
    PieceOperand,
    PiecePartition,
    RefOperand,
    Static,
    TileOperand,
    TupleOperand,
)
from tilewright.frontend.operands.shown_values import shown_value
from tilewright.ir.op import Value
from tilewright.ir.ops.elementwise import Select
from tilewright.ir.ops.shape import Broadcast, Constant, Reshape
from tilewright.ir.types import MAX_TILE_ELEMENTS, TileType

__all__ = [
    "as_index",
    "as_scalar",
    "as_tile",
    "broadcast_shape",
    "broadcast_to",
    "broadcast_together",
    "check_dtype",
    "check_tile_shape",
    "chosen_numbers",
    "constant",
    "convert",
    "default_dtype",
    "dtype_argument",
    "gives_way",
    "is_power_of_two",
    "is_static_number",
    "literal",
    "reshaped",
    "shape_argument",
    "signedness",
    "static_int",
    "static_ints",
    "unify",
]


def is_power_of_two(number: int) -> bool:
    """Whether a tile may have this extent."""
    return number > 0 and number & (number - 1) == 0


def is_static_number(operand: Operand) -> bool:
    """Whether an operand is a compile-time number."""
    return isinstance(operand, Static) and isinstance(operand.value, (bool, int, float))


# --- literals -------------------------------------------------------------------------------------


def default_dtype(value: bool | float) -> type[DType]:
    """The dtype of a literal that meets no tile."""
    if isinstance(value, bool):
        return bool_
    return i32 if isinstance(value, int) else f32


def constant(
    lo: Lowering,
    node: ast.AST,
    value: bool | float,
    dtype: type[DType],
    shape: tuple[int, ...] = (),
) -> TileOperand:
    """A tile with one number in every element, checked to fit the dtype."""
    check_dtype(lo, node, dtype)
    number = _fitting(lo, node, value, dtype)
    held = i8 if dtype is i4 else dtype  # Tile IR has no constants of 4-bit integers
    op = Constant(value=number, to=TileType(held.element, shape), dtype=held)
    return convert(lo, TileOperand(lo.builder.add(op).result, held), dtype)


def literal(lo: Lowering, node: ast.AST, operand: Operand, dtype: type[DType], what: str) -> float:
    """A compile-time number, checked to fit the dtype."""
    if not isinstance(operand, Static) or not is_static_number(operand):
        lo.reject(NotStatic, node, what, str(operand))
    return _fitting(lo, node, operand.value, dtype)


def _fitting(lo: Lowering, node: ast.AST, value: bool | float, dtype: type[DType]) -> float:
    fitting = _fitting_integer if dtype.element.is_integer else _fitting_float
    return fitting(lo, node, value, dtype)


def _fitting_float(lo: Lowering, node: ast.AST, value: bool | float, dtype: type[DType]) -> float:
    """The number as a float; one that is infinite or NaN only after rounding is refused."""
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    with np.errstate(over="ignore"):
        rounded = float(np.float64(number).astype(dtype.element.numpy))
    if dtype is f8e8m0fnu and rounded != number and not math.isnan(number):
        lo.reject(
            LiteralDoesNotFit, node, shown_value(value), dtype.label, "it holds powers of two"
        )
    is_finite = isinstance(value, int) or math.isfinite(value)
    has_changed = is_finite != math.isfinite(rounded) or math.isnan(number) != math.isnan(rounded)
    is_held_at_the_end = dtype is f4e2m1fn and abs(number) > limits(dtype)[1]
    if has_changed or is_held_at_the_end:
        way_out = f"its largest number is {limits(dtype)[1]:g}"
        lo.reject(LiteralDoesNotFit, node, shown_value(value), dtype.label, way_out)
    return number


def _fitting_integer(lo: Lowering, node: ast.AST, value: bool | float, dtype: type[DType]) -> int:
    if isinstance(value, float):
        lo.reject(
            LiteralDoesNotFit, node, repr(value), dtype.label, "convert the tile: `.astype(f32)`"
        )
    low, high = limits(dtype)
    if not low <= value <= high:
        lo.reject(
            LiteralDoesNotFit,
            node,
            shown_value(value),
            dtype.label,
            f"its range is {low} to {high}",
        )
    return int(value)


def check_dtype(lo: Lowering, node: ast.AST, dtype: type[DType]) -> None:
    """Refuse a dtype that the target lacks."""
    target = lo.specialization.target
    first = dtype.element.value.first_target
    if target.startswith("sm_") and int(target.removeprefix("sm_")) < first:
        lo.reject(UnsupportedByTarget, node, dtype.label, target, f"sm_{first}")


# --- operands -------------------------------------------------------------------------------------


def as_tile(
    lo: Lowering, node: ast.AST, operand: Operand, dtype: type[DType] | None = None
) -> TileOperand:
    """The operand as a tile; a literal takes `dtype`, or its default, weakly."""
    if isinstance(operand, TileOperand):
        is_literal = operand.chosen is not None and dtype is not None
        return gives_way(lo, node, operand, dtype or operand.dtype) if is_literal else operand
    if isinstance(operand, Static) and isinstance(operand.value, (bool, int, float)):
        if dtype is not None:
            return constant(lo, node, operand.value, dtype)
        made = constant(lo, node, operand.value, default_dtype(operand.value))
        return TileOperand(made.value, made.dtype, weak=True)
    if isinstance(operand, Minted):
        lo.reject(IndexArithmetic, node, operand.outputs[0], len(operand.coordinates))
    way_out = _TO_TILES.get(type(operand), "").format(name=getattr(operand, "name", ""))
    if isinstance(operand, RefOperand) and not operand.rank:
        way_out = "`.item()` reads its one element"
    lo.reject(WrongOperand, node, "a tile or a number is needed", f"this is {operand}", way_out)


_TO_TILES: dict[type, str] = {
    RefOperand: "load a tile of it: `{name}.load_like(z)`, or `{name}.partition(…)[i]`",
    PartitionOperand: "load a tile of it: `p[i]`",
    AccumOperand: "an Accum cannot be read in the kernel that accumulates; the next launch can",
    PieceOperand: "`{name}.load()` reads this block's piece",
    PiecePartition: "load a part of it: `p[i]`",
    MappedOperand: "`{name}.load(at)` reads the tile at an index of its walk",
}


def chosen_numbers(
    lo: Lowering,
    node: ast.AST,
    condition: TileOperand,
    numbers: tuple[float, float],
    dtype: type[DType] | None = None,
) -> TileOperand:
    """One of two numbers by element: of a dtype, or of the default one until a tile is met."""
    defaults = [default_dtype(number) for number in numbers]
    common = dtype or next((known for known in (f32, i32) if known in defaults), bool_)
    x, y = (constant(lo, node, number, common, condition.shape) for number in numbers)
    op = Select(cond=condition.value, val_if_true=x.value, val_if_false=y.value, dtype=common)
    value = lo.builder.add(op).result
    if dtype is not None:
        return TileOperand(value, dtype)
    return TileOperand(value, common, chosen=ChosenNumbers(condition, numbers))


def gives_way(lo: Lowering, node: ast.AST, tile: TileOperand, dtype: type[DType]) -> TileOperand:
    """A tile with the default dtype of its literals, converted to the dtype of a tile it meets."""
    if tile.chosen is not None:
        return chosen_numbers(lo, node, tile.chosen.condition, tile.chosen.numbers, dtype)
    return convert(lo, tile, dtype)


def as_scalar(lo: Lowering, node: ast.AST, operand: Operand, what: str) -> TileOperand:
    """The operand as a tile of rank 0."""
    tile = as_tile(lo, node, operand)
    if tile.shape:
        lo.reject(
            WrongOperand,
            node,
            what,
            f"a scalar is needed; this is {tile}",
            "`.item()` of a tile with one element gives a scalar",
        )
    return tile


def as_index(lo: Lowering, node: ast.AST, operand: Operand) -> Value:
    """The operand as an i32 scalar for an index."""
    tile = as_scalar(lo, node, operand, "an index")
    if tile.dtype is not i32:
        way_out = "" if isinstance(operand, Static) else "convert it: `.astype(i32)`"
        got = operand if isinstance(operand, Static) else tile
        lo.reject(WrongOperand, node, "an index is an i32", f"this is {got}", way_out)
    return tile.value


def static_int(lo: Lowering, node: ast.AST, operand: Operand, what: str) -> int:
    """A compile-time integer."""
    if isinstance(operand, Static) and isinstance(operand.value, int):
        return int(operand.value)
    lo.reject(NotStatic, node, what, str(operand))


def static_ints(lo: Lowering, node: ast.AST, operand: Operand, what: str) -> tuple[int, ...]:
    """One compile-time integer, or a tuple of them."""
    items = operand.items if isinstance(operand, TupleOperand) else (operand,)
    return tuple(static_int(lo, node, item, what) for item in items)


def shape_argument(
    lo: Lowering, node: ast.AST, operand: Operand, dtype: type[DType] | None = None
) -> tuple[int, ...]:
    """A tile shape: an integer or a tuple of them, each a power of two."""
    shape = static_ints(lo, node, operand, "a tile shape")
    way_out = "round up and let the load pad, or use several tiles"
    check_tile_shape(lo, node, shape, "this tile", way_out, dtype)
    return shape


def check_tile_shape(
    lo: Lowering,
    node: ast.AST,
    shape: tuple[int, ...],
    what: str,
    way_out: str,
    dtype: type[DType] | None = None,
) -> None:
    """Refuse a shape that no tile has."""
    if not all(is_power_of_two(extent) for extent in shape):
        lo.reject(NotPowerOfTwo, node, what, shape, way_out)
    if prod(shape) > MAX_TILE_ELEMENTS:
        lo.reject(TileTooLarge, node, shape, MAX_TILE_ELEMENTS, dtype)


def dtype_argument(lo: Lowering, node: ast.AST, operand: Operand) -> type[DType]:
    """A dtype argument."""
    if not isinstance(operand, DTypeOperand):
        lo.reject(
            WrongOperand,
            node,
            "a dtype is needed",
            f"this is {operand}",
            "for example `f32`",
        )
    check_dtype(lo, node, operand.dtype)
    return operand.dtype


# --- shapes ---------------------------------------------------------------------------------------


def reshaped(lo: Lowering, tile: TileOperand, shape: tuple[int, ...]) -> TileOperand:
    """The same elements in another shape."""
    if tile.shape == shape:
        return tile
    op = Reshape(source=tile.value, to=tile.type.with_shape(shape), dtype=tile.dtype)
    return TileOperand(lo.builder.add(op).result, tile.dtype, tile.weak)


def broadcast_to(lo: Lowering, tile: TileOperand, shape: tuple[int, ...]) -> TileOperand:
    """The tile broadcast along new axes and axes of extent one; the shapes must fit."""
    if tile.shape == shape:
        return tile
    aligned = reshaped(lo, tile, (1,) * (len(shape) - len(tile.shape)) + tile.shape)
    if aligned.shape == shape:
        return aligned
    op = Broadcast(source=aligned.value, to=tile.type.with_shape(shape), dtype=tile.dtype)
    return TileOperand(lo.builder.add(op).result, tile.dtype, tile.weak)


def broadcast_shape(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...] | None:
    """The broadcast shape by NumPy's rule, or None if the shapes do not fit."""
    try:
        return tuple(np.broadcast_shapes(left, right))
    except ValueError:
        return None


def broadcast_together(
    lo: Lowering, node: ast.AST, operation: str, *tiles: TileOperand
) -> tuple[TileOperand, ...]:
    """All tiles broadcast to their common shape."""
    shape: tuple[int, ...] = ()
    for tile in tiles:
        common = broadcast_shape(shape, tile.shape)
        if common is None:
            lo.reject(NotBroadcastable, node, operation, shape, tile.shape)
        shape = common
    if tiles:
        check_tile_shape(lo, node, shape, "the result", "", tiles[0].dtype)
    return tuple(broadcast_to(lo, tile, shape) for tile in tiles)


def unify(
    lo: Lowering, node: ast.AST, operation: str, left: Operand, right: Operand
) -> tuple[TileOperand, TileOperand]:
    """Two operands of one dtype and one shape; a literal takes the dtype of the other side."""
    lhs, rhs = _same_dtype(lo, node, operation, left, right)
    lhs, rhs = broadcast_together(lo, node, operation, lhs, rhs)
    return lhs, rhs


def _same_dtype(
    lo: Lowering, node: ast.AST, operation: str, left: Operand, right: Operand
) -> tuple[TileOperand, TileOperand]:
    if is_static_number(left) and isinstance(right, TileOperand):
        return _met(lo, node, left, right)
    if is_static_number(right) and isinstance(left, TileOperand):
        literal, tile = _met(lo, node, right, left)
        return tile, literal
    lhs, rhs = as_tile(lo, node, left), as_tile(lo, node, right)
    if lhs.dtype is rhs.dtype:
        return lhs, rhs
    if not lhs.has_own_dtype and _can_become(lhs.dtype, rhs.dtype):
        return gives_way(lo, node, lhs, rhs.dtype), rhs
    if not rhs.has_own_dtype and _can_become(rhs.dtype, lhs.dtype):
        return lhs, gives_way(lo, node, rhs, lhs.dtype)
    lo.reject(MixedDTypes, node, operation, lhs.dtype.label, rhs.dtype.label)


def _can_become(literal: type[DType], dtype: type[DType]) -> bool:
    """Whether a literal's default dtype may give way: never from float to integer to bool."""
    if literal.element.is_float:
        return dtype.element.is_float
    return literal is bool_ or dtype is not bool_


def _met(
    lo: Lowering, node: ast.AST, literal: Operand, tile: TileOperand
) -> tuple[TileOperand, TileOperand]:
    """The literal in the tile's dtype; a tile of weak integers beside a float becomes f32."""
    assert isinstance(literal, Static)
    is_integer = not tile.has_own_dtype and tile.dtype.element.is_integer
    if is_integer and isinstance(literal.value, float):
        tile = gives_way(lo, node, tile, f32)
    return as_tile(lo, node, literal, tile.dtype), tile
