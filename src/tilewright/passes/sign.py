"""Non-negative integers, found from their defining ops alone.

No dataflow and no facts: constants, launch-known sizes, block and tile numbers, loop counters that
start at such a value, and a few ops that keep the sign. For choosing a cheaper instruction; "no" is
always a safe answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tilewright.dtypes import Element
from tilewright.ir.attributes import Bounded, Signedness
from tilewright.ir.launch_terms import Blocks, Extent, GridExtent, TileCount
from tilewright.ir.op import Op, Value
from tilewright.ir.ops.control import Assume, For, GetNumTileBlocks, GetTileBlockId
from tilewright.ir.ops.elementwise import AndI, DivI, ExtI, MaxI, MinI, RemI, Select
from tilewright.ir.ops.internal import (
    BlockIndex,
    CeilDiv,
    FloorDiv,
    FloorMod,
    LaunchValue,
    PartIndex,
    Walk,
)
from tilewright.ir.ops.memory import GetIndexSpaceShape, GetTensorShape
from tilewright.ir.ops.shape import Broadcast, Constant, Iota, Reshape
from tilewright.ir.rewrite import Definition

__all__ = ["Signs"]


class Signs:
    """The signs of the values of one function."""

    def __init__(self, definitions: Mapping[Value, Definition]) -> None:
        self._definitions = definitions
        self._known: dict[Value, bool] = {}

    def is_non_negative(self, value: Value) -> bool:
        """Whether no element, read as signed, can be below zero."""
        if value not in self._known:
            self._known[value] = False  # a value that depends on itself is unknown
            self._known[value] = self._look(value)
        return self._known[value]

    def _look(self, value: Value) -> bool:
        definition = self._definitions.get(value)
        if definition is None:
            return False
        if definition.is_argument:
            return self._argument(definition)
        rule = _RESULTS.get(type(definition.op))
        return rule is not None and rule(self, definition.op)

    def _argument(self, definition: Definition) -> bool:
        op = definition.op
        if isinstance(op, Walk):
            return definition.position < len(op.counts)
        if isinstance(op, For):
            counts_up = definition.position == 0 and not op.unsigned_cmp
            return counts_up and self.is_non_negative(op.lower_bound)
        return False


def _always(signs: Signs, op: Op) -> bool:
    return True


def _all_operands(signs: Signs, op: Op) -> bool:
    return all(signs.is_non_negative(value) for value in op.operands)


def _constant(signs: Signs, op: Constant) -> bool:
    assert isinstance(op.to.element, Element)
    elements = np.asarray(op.value)
    # An unsigned constant with its top bit set is negative when read as signed.
    return bool(np.all(elements >= 0) and np.all(elements < 1 << (op.to.element.bits - 1)))


def _launch_value(signs: Signs, op: LaunchValue) -> bool:
    return isinstance(op.term, Extent | TileCount | Blocks | GridExtent)


def _assume(signs: Signs, op: Assume) -> bool:
    lower = op.predicate.lower if isinstance(op.predicate, Bounded) else None
    return (lower is not None and lower >= 0) or signs.is_non_negative(op.value)


def _select(signs: Signs, op: Select) -> bool:
    return signs.is_non_negative(op.val_if_true) and signs.is_non_negative(op.val_if_false)


def _maximum(signs: Signs, op: MaxI) -> bool:
    signed = op.signedness is Signedness.SIGNED
    return signed and any(signs.is_non_negative(value) for value in op.operands)


def _and(signs: Signs, op: AndI) -> bool:
    return any(signs.is_non_negative(value) for value in op.operands)


def _floor_mod(signs: Signs, op: FloorMod) -> bool:
    return signs.is_non_negative(op.rhs)  # the result has the sign of the divisor


def _extend(signs: Signs, op: ExtI) -> bool:
    return op.signedness is Signedness.UNSIGNED or signs.is_non_negative(op.source)


_RESULTS: dict[type[Op], Callable[[Signs, Any], bool]] = {
    AndI: _and,
    Assume: _assume,
    BlockIndex: _always,
    Broadcast: _all_operands,
    CeilDiv: _all_operands,
    Constant: _constant,
    DivI: _all_operands,
    ExtI: _extend,
    FloorDiv: _all_operands,
    FloorMod: _floor_mod,
    GetIndexSpaceShape: _always,
    GetNumTileBlocks: _always,
    GetTensorShape: _always,
    GetTileBlockId: _always,
    Iota: _always,
    LaunchValue: _launch_value,
    MaxI: _maximum,
    MinI: _all_operands,
    RemI: _all_operands,
    PartIndex: _all_operands,
    Reshape: _all_operands,
    Select: _select,
}
