"""Value numbering: values that are equal whenever and wherever a block computes them.

Forward, once over the function. A value gets a number if it never changes while a block runs: it is
computed at most once, outside all loops, or by pure ops, branches and loads from read-only memory,
from values that have one. Equal numbers mean equal values. "Not known" is always a safe answer.
Equality between blocks is `uniformity`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from tilewright.analysis.read_only import ReadOnlyMemory
from tilewright.ir.function import Function
from tilewright.ir.op import Block, Effect, Op, Value
from tilewright.ir.ops.control import If, Yield
from tilewright.ir.rewrite import is_loop

__all__ = ["EqualValues", "comparable"]


class EqualValues:
    """Value numbers of one function. `outputs` are parameters that it may write."""

    def __init__(self, function: Function, outputs: Collection[str] = ()) -> None:
        self._memory = ReadOnlyMemory(function, outputs)
        self._numbers: dict[object, int] = {}
        self._known: dict[Value, int] = {}
        self._visit(function.body, repeated=False)

    def number(self, value: Value) -> int | None:
        """The number of a value, or None if it may change."""
        return self._known.get(value)

    def _visit(self, block: Block, repeated: bool) -> None:
        for op in block.ops:
            for inner in op.regions:
                self._visit(inner, repeated or is_loop(op))
            for position, value in enumerate(op.results):
                made = self._made(op, position)
                if made is not None:
                    self._known[value] = self._numbers.setdefault(made, len(self._numbers))
                elif not repeated:
                    self._known[value] = self._numbers.setdefault(value, len(self._numbers))

    def _made(self, op: Op, position: int) -> object | None:
        """The key of a result: its op and the numbers of its operands, if all have one."""
        if isinstance(op, If):
            return self._chosen(op, position)
        reads = op.effect is Effect.READ and self._memory.has(op)
        if op.regions or not (reads or op.effect is Effect.NONE):
            return None
        operands = tuple(map(self.number, op.operands))
        attributes = tuple(comparable(getattr(op, name)) for name in op.attribute_names)
        if None in operands:
            return None
        return type(op), op.results[position].dtype, position, attributes, operands

    def _chosen(self, op: If, position: int) -> object | None:
        """The key of a branch's result: its condition and the value of each side."""
        ends = [body.ops[-1] for body in op.regions]
        if not all(isinstance(end, Yield) for end in ends):
            return None
        parts = tuple(map(self.number, (op.condition, *(e.operands[position] for e in ends))))
        return None if None in parts else (If, parts)


def comparable(attribute: Any) -> object:
    """An attribute as a part of a key: a number by its text, an array by its bytes.

    0.0 equals -0.0, and True equals 1, but they are not the same.
    """
    if isinstance(attribute, np.ndarray):
        return attribute.dtype.str, attribute.shape, attribute.tobytes()
    return repr(attribute) if isinstance(attribute, float | int | np.generic) else attribute
