"""Two values of one name, from two branches, as one."""

from __future__ import annotations

import ast

from tilewright.diagnostics import Rejected
from tilewright.dtypes import DType
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands import Operand, Static, TileOperand
from tilewright.frontend.tiles import as_tile, convert, default_dtype, is_static_number
from tilewright.ir.op import Block

__all__ = ["Pair", "merged"]

# One tile from each branch, of one type.
Pair = tuple[TileOperand, TileOperand]
Branch = tuple[Block, Operand]


def merged(lo: Lowering, node: ast.AST, left: Branch, right: Branch) -> Operand | Pair | None:
    """What a name is after a branch.

    The operand itself if both sides agree at compile time; a pair of tiles of one type, each
    available at the end of its block, if the branch must hand one on; None if they do not fit.
    """
    (left_block, a), (right_block, b) = left, right
    if a is b or (isinstance(a, Static) and isinstance(b, Static) and _same_constant(a, b)):
        return a
    dtype = _common_dtype(a, b)
    if dtype is None:
        return None
    try:
        with lo.builder.inside(left_block):
            first = _as(lo, node, a, dtype)
        with lo.builder.inside(right_block):
            second = _as(lo, node, b, dtype)
    except Rejected:
        return None
    if first.shape != second.shape or first.dtype is not second.dtype:
        return None
    return first, second


def _same_constant(a: Static, b: Static) -> bool:
    return type(a.value) is type(b.value) and bool(a.value == b.value)


def _common_dtype(a: Operand, b: Operand) -> type[DType] | None:
    """The dtype both sides can have: that of a real tile before that of a literal."""
    strong = [x.dtype for x in (a, b) if isinstance(x, TileOperand) and not x.weak]
    if strong:
        return strong[0]
    defaults = [_weak_dtype(x) for x in (a, b)]
    if None in defaults:
        return None
    floats = [dtype for dtype in defaults if dtype is not None and dtype.element.is_float]
    return floats[0] if floats else defaults[0]


def _weak_dtype(operand: Operand) -> type[DType] | None:
    if isinstance(operand, TileOperand):
        return operand.dtype
    if isinstance(operand, Static) and is_static_number(operand):
        return default_dtype(operand.value)
    return None


def _as(lo: Lowering, node: ast.AST, operand: Operand, dtype: type[DType]) -> TileOperand:
    tile = as_tile(lo, node, operand, dtype)
    return convert(lo, tile, dtype) if tile.weak else tile
