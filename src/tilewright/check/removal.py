"""Removes settled checks from a function; their uses read the checked value.

%j = bounds_check %i, %n          →  (gone)
%t = load_view_tko %v[%j]         →  %t = load_view_tko %v[%i]

A remaining check whose axis may be empty is marked as one that skips.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import NamedTuple

from tilewright.ir.function import Function
from tilewright.ir.op import Block, Op, Value
from tilewright.ir.ops.internal import BoundsCheck

__all__ = ["without_checks"]


def without_checks(
    function: Function, gone: AbstractSet[Op], skipping: AbstractSet[Op] = frozenset()
) -> Function:
    """A copy of the function without these ops, in which others skip."""
    if not gone and not skipping:
        return function
    return replace(function, body=_Removal(gone, skipping, {}).of(function.body))


class _Removal(NamedTuple):
    gone: AbstractSet[Op]
    skipping: AbstractSet[Op]
    values: dict[Value, Value]  # replacements of old values

    def of(self, block: Block) -> Block:
        """A copy of a block, or the block itself if nothing in it changes."""
        ops = [new for op in block.ops if (new := self._of_op(op)) is not None]
        if len(ops) == len(block.ops) and all(a is b for a, b in zip(ops, block.ops, strict=True)):
            return block
        return Block(block.args, ops)

    def _of_op(self, op: Op) -> Op | None:
        values = self.values
        if op in self.gone:
            for result in op.results:
                values[result] = values.get(op.operands[0], op.operands[0])
            return None
        regions = tuple(self.of(inner) for inner in op.regions)
        is_inside = any(new is not old for new, old in zip(regions, op.regions, strict=True))
        if not is_inside and op not in self.skipping and values.keys().isdisjoint(op.operands):
            return op
        new = op.rebuilt(values, regions)
        if isinstance(new, BoundsCheck) and op in self.skipping:
            new.skips = True
        values.update(zip(op.results, new.results, strict=True))
        return new
