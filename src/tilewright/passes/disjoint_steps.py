"""Loops whose steps access disjoint memory.

A `walk` mints different coordinates at every step, a `for` has a different counter. If every access
to a tensor inside the loop has those numbers among its indices, each along one fixed axis that all
accesses cut in the same way, two steps touch different tiles, and need no order. An index must be
the number itself, plus or minus a loop-invariant value: `j // 2` and `j % 2` collide. A part of a
piece counts as the piece.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tilewright.ir.op import Effect, Op, Value
from tilewright.ir.ops.control import For
from tilewright.ir.ops.elementwise import AddI, SubI
from tilewright.ir.ops.internal import PartIndex, Walk
from tilewright.ir.ops.memory import LoadView, MakePartitionView, StoreView
from tilewright.ir.rewrite import Definition, nested_ops

__all__ = ["steps_are_disjoint"]


def steps_are_disjoint(
    loop: Op, accesses: Iterable[Op], definitions: Mapping[Value, Definition]
) -> bool:
    """Whether no two steps of a loop touch the same element by these accesses."""
    minted = _minted(loop)
    if not minted:
        return False
    steps = _Steps(loop, definitions)
    places = {steps.place(access, minted) for access in accesses}
    return len(places) == 1 and None not in places


def _minted(loop: Op) -> tuple[Value, ...]:
    """The numbers whose tuple is different at every step."""
    if isinstance(loop, Walk):
        return loop.body.args[: len(loop.counts)]
    return loop.body.args[:1] if isinstance(loop, For) else ()


class _Steps:
    def __init__(self, loop: Op, definitions: Mapping[Value, Definition]) -> None:
        self._loop = loop
        self._inside = set(nested_ops(loop))
        self._definitions = definitions

    def place(self, access: Op, minted: tuple[Value, ...]) -> object | None:
        """How an access cuts its tensor along the minted numbers, or None if that is not known."""
        if not isinstance(access, LoadView | StoreView):
            return None
        view = self._definitions.get(access.view)
        if view is None or not isinstance(view.op, MakePartitionView):
            return None
        cuts = tuple(self._cut(number, access.index, view.op.to.tile) for number in minted)
        return None if None in cuts else (view.op.tensor_view, view.op.to.dim_map, cuts)

    def _cut(
        self, number: Value, index: tuple[Value, ...], tile: tuple[int, ...]
    ) -> tuple[int, Value, int] | None:
        """The axis that a number indexes, the index there, and the extent of its steps."""
        for axis, value in enumerate(index):
            if self._follows(value, number):
                return axis, value, tile[axis]
            definition = self._definitions.get(value)
            op = None if definition is None else definition.op
            if isinstance(op, PartIndex) and self._follows(op.piece, number):
                return axis, op.piece, tile[axis] * op.parts
        return None

    def _follows(self, value: Value, number: Value) -> bool:
        """Whether a value is a minted number, plus or minus a loop-invariant one."""
        if value is number:
            return True
        definition = self._definitions.get(value)
        op = None if definition is None else definition.op
        if isinstance(op, PartIndex):
            return self._is_fixed(op.piece) and self._follows(op.own, number)
        if not isinstance(op, AddI | SubI):
            return False
        lhs, rhs = op.lhs, op.rhs
        return (self._follows(lhs, number) and self._is_fixed(rhs)) or (
            self._is_fixed(lhs) and self._follows(rhs, number)
        )

    def _is_fixed(self, value: Value) -> bool:
        """Whether a value is loop-invariant."""
        definition = self._definitions.get(value)
        if definition is None:
            return True
        op = definition.op
        if definition.is_argument:
            return op is not self._loop and op not in self._inside
        if op not in self._inside:
            return True
        plain = op.effect is Effect.NONE and not op.regions
        return plain and all(self._is_fixed(operand) for operand in op.operands)
