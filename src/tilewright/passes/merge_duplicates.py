"""One op where the same scalar, constant or view is computed twice.

    before                              after
    %a = constant 4 : i32               %a = constant 4 : i32
    %b = constant 4 : i32               …uses of %b now name %a

Only ops without effects and regions, and only those whose results cost no registers worth
speaking of: scalars, views and constants. An op is merged with an earlier one of the same block
or of a block around it, so the earlier one is always computed. Keeps the IR short for people and
lets `order_tokens` see that two views are the same; needs nothing earlier.
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
    """Let later copies of an op name the results of the first."""
    return _Merging().function(function)


class _Merging(Rewriter):
    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[object, Op] = {}

    def block(self, block: Block) -> Block:
        """One block; what it computes is unknown outside."""
        outer, self._seen = self._seen, dict(self._seen)
        new = super().block(block)
        self._seen = outer
        return new

    def visit(self, op: Op) -> None:
        """Rebuild one op, unless an equal one is in sight."""
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
        """What makes two ops equal, or None for ops that stay apart."""
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
