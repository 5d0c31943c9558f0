"""Common subexpression elimination of scalars, constants and views.

    before                              after
    %a = constant 4 : i32               %a = constant 4 : i32
    %b = constant 4 : i32               …uses of %b now name %a

Only ops without effects and regions are merged, and only those whose results take few registers:
scalars, views and constants. The earlier op is in the same or an enclosing block, so it dominates
the later one. Keeps the IR short for readers and lets `order_tokens` identify equal views; needs no
earlier pass.
"""

from __future__ import annotations

from tilewright.analysis.equal_values import comparable
from tilewright.ir.function import Function
from tilewright.ir.op import Block, Effect, Op
from tilewright.ir.ops.shape import Constant
from tilewright.ir.rewrite import Rewriter
from tilewright.ir.types import TileType, TokenType

__all__ = ["merge_duplicates"]


def merge_duplicates(function: Function) -> Function:
    """Replace later copies of an op by the results of the first."""
    return _Merging().function(function)


class _Merging(Rewriter):
    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[object, Op] = {}

    def block(self, block: Block) -> Block:
        """One block; its results are not visible outside."""
        outer, self._seen = self._seen, dict(self._seen)
        new = super().block(block)
        self._seen = outer
        return new

    def visit(self, op: Op) -> None:
        """Rebuild one op, unless an equal one dominates it."""
        key = self._key(op)
        if key is None:
            super().visit(op)
            return
        seen = self._seen.get(key)
        if seen is None:
            self._seen[key] = self.keep(op)
        else:
            self.replace(op, *seen.results)

    def _key(self, op: Op) -> tuple[object, ...] | None:
        """The key by which ops are equal, or None for ops that are never merged."""
        if op.effect is not Effect.NONE or op.region_fields or not _is_light(op):
            return None
        attributes = [comparable(getattr(op, name)) for name in op.attribute_names]
        return (type(op), op.results[0].dtype, *attributes, *map(self.new, op.operands))


def _is_light(op: Op) -> bool:
    any_shape = isinstance(op, Constant)
    for value in op.results:
        type_ = value.type
        if isinstance(type_, TokenType):
            return False
        if isinstance(type_, TileType) and type_.shape and not any_shape:
            return False
    return bool(op.results)
