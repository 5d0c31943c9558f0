"""Index operands: integers of any dtype, widened to 32 or 64 bits.

No index is narrowed here. It is compared with its axis in its own width first, so that a number
beyond 32 bits never wraps to one inside.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from tilewright.check.errors.types import WrongOperand
from tilewright.dtypes import bool_, i32
from tilewright.frontend.calling.arguments import Place
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.operands import Minted, Operand, Static, TileOperand, TupleOperand
from tilewright.frontend.operands.tiles import as_scalar, as_tile, convert

__all__ = ["coordinates", "integer_scalar", "integer_tile"]


def coordinates(places: Sequence[Place]) -> tuple[Place, ...]:
    """The coordinates of an index: a tuple or a minted index stands for its parts."""
    if len(places) != 1:
        return tuple(places)
    [(node, operand)] = places
    if isinstance(operand, TupleOperand):
        return tuple((node, item) for item in operand.items)
    if isinstance(operand, Minted):
        return tuple((node, coordinate) for coordinate in operand.coordinates)
    return tuple(places)


def integer_scalar(lo: Lowering, node: ast.AST, operand: Operand) -> TileOperand:
    """The operand as one integer."""
    return _integers(lo, node, operand, as_scalar(lo, node, operand, "an index"))


def integer_tile(lo: Lowering, node: ast.AST, operand: Operand) -> TileOperand:
    """The operand as a tile of integers, or one integer."""
    return _integers(lo, node, operand, as_tile(lo, node, operand))


def _integers(lo: Lowering, node: ast.AST, operand: Operand, tile: TileOperand) -> TileOperand:
    if not tile.dtype.element.is_integer or tile.dtype is bool_:
        way_out = "" if isinstance(operand, Static) else "convert it: `.astype(i32)`"
        got = operand if isinstance(operand, Static) else tile
        lo.reject(WrongOperand, node, "an index is an integer", f"this is {got}", way_out)
    return tile if tile.dtype.element.bits >= i32.element.bits else convert(lo, tile, i32)
