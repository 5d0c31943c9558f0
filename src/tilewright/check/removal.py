"""Takes settled checks out of a function; their uses read what was checked.

%j = bounds_check %i, %n          →  (gone)
%t = load_view_tko %v[%j]         →  %t = load_view_tko %v[%i]
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace

from tilewright.ir.function import Function
from tilewright.ir.op import Block, Op, Value

__all__ = ["without_checks"]


def without_checks(function: Function, gone: AbstractSet[Op]) -> Function:
    """The function without these ops; the original is left as it is."""
    if not gone:
        return function
    return replace(function, body=_rewritten(function.body, gone, {}))


def _rewritten(block: Block, gone: AbstractSet[Op], values: dict[Value, Value]) -> Block:
    ops: list[Op] = []
    for op in block.ops:
        if op in gone:
            for result in op.results:
                values[result] = values.get(op.operands[0], op.operands[0])
            continue
        regions = tuple(_rewritten(inner, gone, values) for inner in op.regions)
        is_inside = any(new is not old for new, old in zip(regions, op.regions, strict=True))
        if is_inside or not values.keys().isdisjoint(op.operands):
            new = op.rebuilt(values, regions)
            values.update(zip(op.results, new.results, strict=True))
            op = new
        ops.append(op)
    if len(ops) == len(block.ops) and all(a is b for a, b in zip(ops, block.ops, strict=True)):
        return block
    return Block(block.args, ops)
