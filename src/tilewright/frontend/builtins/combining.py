"""`tw.reduce` and `tw.scan`: with the author's function, on one tile or on several at once.

The function becomes the region of one op, which Tile IR may run in any order, any number of times
and on padding elements: so it must be pure. Loads, stores, checks and branches in it are refused.
"""

from __future__ import annotations

import ast

from tilewright.check.errors.types import WrongOperand
from tilewright.dtypes import DType
from tilewright.frontend.builtins.axes import (
    axes_argument,
    axis_argument,
    flag_argument,
    flattened,
    kept,
)
from tilewright.frontend.builtins.folding import Combine, Fold, Scalars
from tilewright.frontend.calling.arguments import Arguments, given_by
from tilewright.frontend.calling.inlining import applied, signature_of
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.abilities import check_computes
from tilewright.frontend.operands.operands import (
    BuiltinOperand,
    FunctionOperand,
    LambdaOperand,
    Operand,
    Static,
    TileOperand,
    TupleOperand,
)
from tilewright.frontend.operands.tiles import as_tile, convert, literal
from tilewright.ir.op import Block, Effect, Op
from tilewright.ir.ops.internal import BoundsCheck, DivisorCheck

__all__ = ["lower_reduce", "lower_scan"]


def lower_reduce(lo: Lowering, call: Arguments) -> Operand:
    """`tw.reduce(x, f, identity, axis=…, keepdims=…)`."""
    tiles = _tiles(lo, call)
    fold = Fold(lo, _combination(lo, call, tiles), _identities(lo, call, tiles))
    axes, keepdims = axes_argument(lo, call, tiles[0]), flag_argument(lo, call, "keepdims")
    results = tiles
    for axis in axes:
        results = fold.reduced(results, axis)
    if keepdims:
        results = tuple(kept(lo, result, tiles[0].shape, axes) for result in results)
    return _as_given(call, results)


def lower_scan(lo: Lowering, call: Arguments) -> Operand:
    """`tw.scan(x, f, identity, axis=…, reverse=…)`."""
    tiles = _tiles(lo, call)
    fold = Fold(lo, _combination(lo, call, tiles), _identities(lo, call, tiles))
    axis = axis_argument(lo, call, tiles[0])
    if axis is None:
        tiles = tuple(flattened(lo, tile) for tile in tiles)
    reverse = flag_argument(lo, call, "reverse")
    return _as_given(call, fold.scanned(tiles, axis or 0, reverse=reverse))


def _tiles(lo: Lowering, call: Arguments) -> Scalars:
    """The operands: a tile, or several of one shape."""
    given, where = call.operand("x"), call.where("x")
    items = given.items if isinstance(given, TupleOperand) else (given,)
    if not items:
        lo.reject(WrongOperand, where, _name(call), "there is nothing to combine")
    tiles = tuple(as_tile(lo, where, item) for item in items)
    for tile in tiles:
        check_computes(lo, where, _name(call), tile.dtype)
        if tile.shape != tiles[0].shape:
            reason = f"tiles of shapes {tiles[0].shape} and {tile.shape} are not combined together"
            lo.reject(WrongOperand, where, _name(call), reason, "bring them into one shape")
    return tiles


def _identities(lo: Lowering, call: Arguments, tiles: Scalars) -> tuple[float, ...]:
    """The identity of the function for each tile."""
    given, where = call.operand("identity"), call.where("identity")
    items = given.items if isinstance(given, TupleOperand) else (given,)
    if len(items) != len(tiles):
        reason = f"each of {len(tiles)} tiles needs an identity; this has {len(items)}"
        lo.reject(WrongOperand, where, _name(call), reason, "give one number for each tile")
    return tuple(
        literal(lo, where, item, tile.dtype, "an identity")
        for item, tile in zip(items, tiles, strict=True)
    )


def _as_given(call: Arguments, results: Scalars) -> Operand:
    return TupleOperand(results) if isinstance(call.operand("x"), TupleOperand) else results[0]


def _name(call: Arguments) -> str:
    return ast.unparse(call.node.func)


# --- the function ---------------------------------------------------------------------------------


def _combination(lo: Lowering, call: Arguments, tiles: Scalars) -> Combine:
    function, where = call.operand("f"), call.where("f")
    if not isinstance(function, (FunctionOperand, LambdaOperand)):
        way_out = "give it a lambda or a plain function: `lambda a, b: a + b`"
        if isinstance(function, BuiltinOperand):
            way_out = f"wrap it: `lambda a, b: tw.{function.builtin.name}(a, b)`"
        reason = f"it combines with a function; this is {function}"
        lo.reject(WrongOperand, where, _name(call), reason, way_out)
    dtypes = [tile.dtype for tile in tiles]
    _check_parameters(lo, call, function, 2 * len(tiles))

    def combine(before: Scalars, element: Scalars) -> Scalars:
        body = lo.builder.block
        result = applied(lo, call.node, function, (*before, *element))
        combined = _combined(lo, call, result, dtypes)
        _check_pure(lo, where, _name(call), body)
        return combined

    return combine


def _check_parameters(
    lo: Lowering, call: Arguments, function: FunctionOperand | LambdaOperand, count: int
) -> None:
    """Check that the function takes two scalars for each tile."""
    try:
        given = given_by(call.node, function)
        signature = signature_of(lo, call.node, function)
        signature.bind(*given.positional, *range(count), **dict(given.keywords))
    except TypeError:
        reason = f"it calls its function with {count} scalars, which {function} does not take"
        way_out = "two for each tile: `lambda a, b: a + b`"
        lo.reject(WrongOperand, call.where("f"), _name(call), reason, way_out)


def _combined(
    lo: Lowering, call: Arguments, result: Operand, dtypes: list[type[DType]]
) -> tuple[TileOperand, ...]:
    """The results of the function: a scalar for each tile, of its dtype."""
    items = result.items if isinstance(result, TupleOperand) else (result,)
    where, count = call.where("f"), len(dtypes)
    if len(items) != count:
        given = "1 value" if len(items) == 1 else f"{len(items)} values"
        reason = f"the function gives {given} for {count} tile{'' if count == 1 else 's'}"
        lo.reject(WrongOperand, where, _name(call), reason)
    if any(isinstance(item, Static) and item.value is None for item in items):
        lo.reject(WrongOperand, where, _name(call), "the function gives nothing", "return a value")
    return tuple(
        _one(lo, call, item, dtype) for item, dtype in zip(items, dtypes, strict=True)
    )  # fmt: skip


def _one(lo: Lowering, call: Arguments, item: Operand, dtype: type[DType]) -> TileOperand:
    where = call.where("f")
    made = as_tile(lo, where, item, dtype)
    scalar = convert(lo, made, dtype) if made.weak else made
    if scalar.shape or scalar.dtype is not dtype:
        reason = f"the function combines scalars of {dtype.label}, and gives {scalar}"
        lo.reject(WrongOperand, where, _name(call), reason)
    return scalar


def _check_pure(lo: Lowering, node: ast.AST, name: str, body: Block) -> None:
    for op in body.ops:
        reason, way_out = _impurity(op)
        if reason:
            lo.reject(WrongOperand, node, name, f"its function {reason}", way_out)


def _impurity(op: Op) -> tuple[str, str]:
    """The impurity of an op, and the way out."""
    if isinstance(op, DivisorCheck):
        way_out = "divide by a constant, or divide the tile before or after"
        return "divides by a number that may be zero", way_out
    if isinstance(op, BoundsCheck) or op.effect is Effect.READ or op.effect is Effect.WRITE:
        return "reads or writes memory", "load before, and combine tiles"
    if op.effect is not Effect.NONE:
        return "does more than compute", "a combination may run any number of times"
    if op.regions:
        return "branches or loops", "choose with `a if condition else b`, which computes both"
    return "", ""
