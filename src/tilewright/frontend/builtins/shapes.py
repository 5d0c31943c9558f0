"""Concatenation and parts of tiles: `cat`, `join`, `split`, `extract`, `insert`.

The parts of a tile are numbered along each axis, and a number walks the ladder of checks like any
index: a number outside reads the nearest part, or replaces nothing, and is reported.
"""

from __future__ import annotations

import ast

from tilewright.check.errors.types import IndexCount, MixedDTypes, WrongOperand
from tilewright.frontend.builtins.axes import axis_argument, flag_argument
from tilewright.frontend.calling.arguments import Arguments, Place
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.memory.tensors import checked
from tilewright.frontend.operands.operands import Operand, TileOperand, TupleOperand
from tilewright.frontend.operands.tiles import (
    as_tile,
    check_tile_shape,
    is_power_of_two,
    reshaped,
    shape_argument,
    unify,
)
from tilewright.ir.check_sites import CheckSite
from tilewright.ir.op import Value
from tilewright.ir.ops.shape import Cat, Extract, Insert

__all__ = ["lower_cat", "lower_extract", "lower_insert", "lower_join", "lower_split"]

_SHOWN = 40  # characters of a tile's expression in a message


def lower_cat(lo: Lowering, call: Arguments) -> Operand:
    """`tw.cat((a, b), axis)`: pairwise, so that every intermediate is a tile."""
    given, where = call.operand("tiles"), call.where("tiles")
    if not isinstance(given, TupleOperand) or not given.items:
        reason = f"it takes tiles in a tuple; this is {given}"
        lo.reject(WrongOperand, where, "tw.cat", reason, "write `tw.cat((a, b), axis)`")
    tiles = [as_tile(lo, where, item) for item in given.items]
    for tile in tiles:
        if tile.dtype is not tiles[0].dtype:
            lo.reject(MixedDTypes, where, "tw.cat", tiles[0].dtype.label, tile.dtype.label)
        if tile.shape != tiles[0].shape:
            reason = f"shapes {tiles[0].shape} and {tile.shape} differ"
            lo.reject(WrongOperand, where, "tw.cat", reason, "only equal tiles make a tile")
    if not is_power_of_two(len(tiles)):
        reason = f"{len(tiles)} tiles do not make one whose extents are powers of two"
        lo.reject(WrongOperand, where, "tw.cat", reason)
    axis = _one_axis(lo, call, tiles[0], "tw.cat")
    shape = list(tiles[0].shape)
    shape[axis] *= len(tiles)
    check_tile_shape(lo, where, tuple(shape), "the result", "", tiles[0].dtype)
    while len(tiles) > 1:
        tiles = [_joined(lo, a, b, axis) for a, b in zip(tiles[::2], tiles[1::2], strict=True)]
    return tiles[0]


def _joined(lo: Lowering, lhs: TileOperand, rhs: TileOperand, axis: int) -> TileOperand:
    op = Cat(lhs=lhs.value, rhs=rhs.value, dim=axis, dtype=lhs.dtype)
    return TileOperand(lo.builder.add(op).result, lhs.dtype)


def lower_join(lo: Lowering, call: Arguments) -> Operand:
    """`tw.join(a, b, axis, interleaved=…)`."""
    a, b = unify(lo, call.node, "tw.join", call.operand("a"), call.operand("b"))
    axis = _one_axis(lo, call, a, "tw.join")
    shape = list(a.shape)
    shape[axis] *= 2
    check_tile_shape(lo, call.node, tuple(shape), "the result", "", a.dtype)
    if not flag_argument(lo, call, "interleaved"):
        return _joined(lo, a, b, axis)
    apart = (*a.shape[: axis + 1], 1, *a.shape[axis + 1 :])
    pairs = _joined(lo, reshaped(lo, a, apart), reshaped(lo, b, apart), axis + 1)
    return reshaped(lo, pairs, tuple(shape))


def lower_split(lo: Lowering, call: Arguments) -> Operand:
    """`tw.split(x, axis, interleaved=…)`."""
    whole = as_tile(lo, call.where("x"), call.operand("x"))
    axis = _one_axis(lo, call, whole, "tw.split")
    extent = whole.shape[axis]
    if extent == 1:
        reason = f"axis {axis} of {whole} has one element, and one has no halves"
        lo.reject(WrongOperand, call.where("x"), "tw.split", reason)
    shape = (*whole.shape[:axis], extent // 2, *whole.shape[axis + 1 :])
    alternate = flag_argument(lo, call, "interleaved")
    pair = (extent // 2, 2) if alternate else (2, extent // 2)
    apart = reshaped(lo, whole, (*whole.shape[:axis], *pair, *whole.shape[axis + 1 :]))
    halves = (_half(lo, apart, axis + alternate, number) for number in (0, 1))
    return TupleOperand(tuple(reshaped(lo, half, shape) for half in halves))


def _half(lo: Lowering, pairs: TileOperand, axis: int, number: int) -> TileOperand:
    """One of the two elements along an axis of extent two."""
    shape = tuple(1 if a == axis else extent for a, extent in enumerate(pairs.shape))
    index = tuple(lo.builder.index(number if a == axis else 0) for a in range(len(shape)))
    to = pairs.type.with_shape(shape)
    op = Extract(source=pairs.value, indices=index, to=to, dtype=pairs.dtype)
    return TileOperand(lo.builder.add(op).result, pairs.dtype)


def _one_axis(lo: Lowering, call: Arguments, tile: TileOperand, name: str) -> int:
    axis = axis_argument(lo, call, tile)
    if axis is None:
        lo.reject(WrongOperand, call.where("axis"), name, "it needs one axis")
    return axis


def lower_extract(lo: Lowering, call: Arguments) -> Operand:
    """`tw.extract(x, index, shape)`."""
    whole = as_tile(lo, call.where("x"), call.operand("x"))
    shape = shape_argument(lo, call.where("shape"), call.operand("shape"))
    _check_part(lo, call.where("shape"), "tw.extract", shape, whole.shape)
    index = _numbers(lo, call, whole, shape, is_store=False)
    to = whole.type.with_shape(shape)
    op = Extract(source=whole.value, indices=index, to=to, dtype=whole.dtype)
    return TileOperand(lo.builder.add(op).result, whole.dtype)


def lower_insert(lo: Lowering, call: Arguments) -> Operand:
    """`tw.insert(x, part, index)`."""
    whole = as_tile(lo, call.where("x"), call.operand("x"))
    part = as_tile(lo, call.where("part"), call.operand("part"), whole.dtype)
    if part.dtype is not whole.dtype:
        where = call.where("part")
        lo.reject(MixedDTypes, where, "tw.insert", whole.dtype.label, part.dtype.label)
    _check_part(lo, call.where("part"), "tw.insert", part.shape, whole.shape)
    index = _numbers(lo, call, whole, part.shape, is_store=True)
    op = Insert(source=part.value, destination=whole.value, indices=index, dtype=whole.dtype)
    return TileOperand(lo.builder.add(op).result, whole.dtype)


def _check_part(
    lo: Lowering, node: ast.AST, name: str, part: tuple[int, ...], whole: tuple[int, ...]
) -> None:
    divides = len(part) == len(whole) and all(
        n % m == 0 for n, m in zip(whole, part, strict=True)
    )  # fmt: skip
    if not divides:
        reason = f"parts of shape {part} do not divide a tile of shape {whole}"
        lo.reject(WrongOperand, node, name, reason, "one extent for each axis, none larger")


def _numbers(
    lo: Lowering,
    call: Arguments,
    whole: TileOperand,
    part: tuple[int, ...],
    *,
    is_store: bool,
) -> tuple[Value, ...]:
    """The checked index of the part along each axis."""
    where, given = call.where("index"), call.operand("index")
    items = given.items if isinstance(given, TupleOperand) else (given,)
    nodes = where.elts if isinstance(where, ast.Tuple) else [where] * len(items)
    if len(items) != len(whole.shape):
        lo.reject(IndexCount, where, str(whole), len(whole.shape), len(items))
    text = ast.unparse(call.where("x"))
    subject = text if len(text) <= _SHOWN else "…"
    places: list[Place] = list(zip(nodes, items, strict=True))
    return tuple(
        checked(
            lo,
            place,
            lo.builder.index(whole.shape[axis] // part[axis]),
            CheckSite(subject, axis, part[axis], is_store, of_tile=True),
        )
        for axis, place in enumerate(places)
    )
