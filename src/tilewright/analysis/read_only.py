"""Read-only memory: loads from parameters that no block of the kernel writes."""

from __future__ import annotations

from collections.abc import Collection

from tilewright.ir.function import Function
from tilewright.ir.launch_terms import BaseAddress
from tilewright.ir.op import Effect, Op, Value
from tilewright.ir.ops.internal import LaunchValue

__all__ = ["ReadOnlyMemory"]


class ReadOnlyMemory:
    """The parameter of each pointer and view, and the parameters that are written.

    `outputs` are parameters that the function may write, beside those with a store in it.
    """

    def __init__(self, function: Function, outputs: Collection[str]) -> None:
        self._roots: dict[Value, str] = {}
        self._written = set(outputs)
        self._writes_anywhere = False
        for op in function.walk():
            self._follow(op)

    def has(self, op: Op) -> bool:
        """Whether an op reads only memory that no block writes."""
        roots = self._roots_of(op)
        return bool(roots) and roots.isdisjoint(self._written) and not self._writes_anywhere

    def _follow(self, op: Op) -> None:
        if isinstance(op, LaunchValue) and isinstance(op.term, BaseAddress):
            self._roots[op.result] = op.term.param
            return
        found = self._roots_of(op)
        if op.effect is Effect.WRITE:
            self._written |= found
            self._writes_anywhere |= not found
        elif op.effect is Effect.NONE and len(found) == 1:
            (root,) = found
            self._roots.update((result, root) for result in op.results)

    def _roots_of(self, op: Op) -> set[str]:
        return {self._roots[value] for value in op.operands if value in self._roots}
