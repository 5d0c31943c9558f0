"""Merging: the values of one name from two branches as one.

Aggregates are merged member by member. A compile-time value that both branches agree on is kept;
where they differ, each yields a tile of one type, which becomes a result of the branch.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

from tilewright.check.errors.syntax import BadCall
from tilewright.diagnostics import Rejected
from tilewright.dtypes import DType
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.aggregates import Compound, are_alike, leaves, refilled
from tilewright.frontend.operands.operands import Operand, Static, TileOperand
from tilewright.frontend.operands.tiles import as_tile, convert, default_dtype, is_static_number
from tilewright.ir.op import Block
from tilewright.ir.ops.control import If, Yield
from tilewright.ir.ops.shape import Constant

__all__ = [
    "Merged",
    "Split",
    "choose",
    "filler",
    "is_same_constant",
    "merged",
    "refuse_results",
]

Branch = tuple[Block, Operand]


@dataclass(frozen=True, eq=False)
class Split:
    """A leaf for which the branches give different tiles of one type."""

    left: TileOperand
    right: TileOperand


@dataclass(frozen=True, eq=False)
class Merged:
    """The operand of a name after a branch, with the sources of each of its leaves."""

    template: Operand
    parts: tuple[Operand | Split, ...]

    @property
    def splits(self) -> tuple[Split, ...]:
        """The leaves that become results of the branch."""
        return tuple(part for part in self.parts if isinstance(part, Split))

    def filled(self, tiles: Iterator[TileOperand]) -> Operand:
        """The operand, with tiles for the splits."""
        found = (next(tiles) if isinstance(part, Split) else part for part in self.parts)
        return refilled(self.template, iter(tuple(found)))


def merged(lo: Lowering, node: ast.AST, left: Branch, right: Branch) -> Merged | None:
    """The merged value of two, each available at the end of its block; None if they do not fit."""
    if left[1] is right[1]:
        return Merged(left[1], tuple(operand for _, operand in leaves(left[1])))
    if isinstance(left[1], Compound) or isinstance(right[1], Compound):
        return _merged_members(lo, node, left, right)
    part = _merged_leaf(lo, node, left, right)
    if part is None:
        return None
    return Merged(part.left if isinstance(part, Split) else part, (part,))


def _merged_members(lo: Lowering, node: ast.AST, left: Branch, right: Branch) -> Merged | None:
    (left_block, a), (right_block, b) = left, right
    if not are_alike(a, b):
        return None
    assert isinstance(a, Compound)
    assert isinstance(b, Compound)
    parts: list[Operand | Split] = []
    for one, other in zip(a.items, b.items, strict=True):
        member = merged(lo, node, (left_block, one), (right_block, other))
        if member is None:
            return None
        parts.extend(member.parts)
    return Merged(a, tuple(parts))


def _merged_leaf(
    lo: Lowering, node: ast.AST, left: Branch, right: Branch
) -> Operand | Split | None:
    (left_block, a), (right_block, b) = left, right
    if is_same_constant(a, b):
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
    return Split(first, second)


def is_same_constant(a: Operand, b: Operand) -> bool:
    """Whether two operands are the same compile-time value."""
    if isinstance(a, Static) and isinstance(b, Static):
        # By the text: 0.0 and -0.0 are equal, but not the same.
        return type(a.value) is type(b.value) and repr(a.value) == repr(b.value)
    return a == b


def refuse_results(lo: Lowering, node: ast.AST, one: str, other: str) -> NoReturn:
    """Refuse a function whose paths return values that cannot be merged."""
    reason = f"it returns {one} on one path and {other} on another"
    way_out = "return values of one kind, dtype and shape on every path"
    lo.reject(BadCall, node, lo.frame.node.name, reason, way_out)


def _common_dtype(a: Operand, b: Operand) -> type[DType] | None:
    """The dtype both sides can have: that of a tile before that of a literal."""
    strong = [x.dtype for x in (a, b) if isinstance(x, TileOperand) and x.has_own_dtype]
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


def filler(lo: Lowering, operand: Operand) -> Operand:
    """A placeholder of the operand's type, for a path on which its value is dead."""

    def fill(leaf: Operand) -> Operand:
        if not isinstance(leaf, TileOperand):
            return leaf
        op = lo.builder.add(Constant(value=0, to=leaf.type, dtype=leaf.dtype))
        return TileOperand(op.result, leaf.dtype, leaf.weak)

    return refilled(operand, iter([fill(leaf) for _, leaf in leaves(operand)]))


def choose(
    lo: Lowering,
    condition: TileOperand,
    blocks: tuple[Block, Block],
    results: Sequence[tuple[str, Merged]],
) -> list[Operand]:
    """Add the branch, and return its results; each has a name for the IR text."""
    splits = [(hint, split) for hint, plan in results for split in plan.splits]
    then_body, else_body = blocks
    then_body.ops.append(Yield(values=tuple(split.left.value for _, split in splits)))
    else_body.ops.append(Yield(values=tuple(split.right.value for _, split in splits)))
    types = tuple(split.left.type for _, split in splits)
    op = If(condition=condition.value, then_body=then_body, else_body=else_body, types=types)
    tiles = []
    for (hint, split), value in zip(splits, lo.builder.add(op).result_values, strict=True):
        value.dtype, value.hint = split.left.dtype, hint
        tiles.append(TileOperand(value, split.left.dtype))
    given = iter(tiles)
    return [plan.filled(given) for _, plan in results]
