"""Loop-invariant checks of counted loops, which run once before the loop.

A check of a loop-invariant value fails in the first iteration or in none, so it may run before the
loop. Its operands move with it, as long as they are scalar arithmetic that is defined for all
operands: the facts of the loop do not hold before it. The ledger reads this analysis;
`passes.hoist_checks` moves the ops.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.ir.attributes import Overflow
from tilewright.ir.op import Block, Op, Value
from tilewright.ir.ops.control import Break, Continue, For, GetNumTileBlocks, If, Return
from tilewright.ir.ops.elementwise import (
    AbsI,
    AddI,
    AndI,
    CmpI,
    ExtI,
    MaxI,
    MinI,
    MulI,
    NegI,
    OrI,
    Select,
    SubI,
    TruncI,
    XOrI,
)
from tilewright.ir.ops.internal import (
    BlockIndex,
    BoundsCheck,
    CeilDiv,
    DivisorCheck,
    FloorDiv,
    FloorMod,
    LaunchValue,
    ReadAs,
)
from tilewright.ir.ops.shape import Constant
from tilewright.ir.types import TileType

__all__ = ["find_hoisted", "leaving_ops"]

# Scalar arithmetic that is defined for all operands.
_TOTAL = frozenset({
    AbsI, AddI, AndI, BlockIndex, CmpI, Constant, ExtI, GetNumTileBlocks, LaunchValue, MaxI, MinI,
    MulI, NegI, OrI, ReadAs, Select, SubI, TruncI, XOrI,
})  # fmt: skip
_CHECKS = (BoundsCheck, DivisorCheck)


def find_hoisted(block: Block) -> frozenset[Op]:
    """The checks of a function's body that can leave a loop."""
    found: set[Op] = set()
    for op in (inner for outer in block.ops for inner in outer.walk()):
        if isinstance(op, For):
            found.update(moved for moved in leaving_ops(op) if isinstance(moved, _CHECKS))
    return frozenset(found)


def leaving_ops(loop: For) -> tuple[Op, ...]:
    """The loop-invariant checks of a loop and the ops they depend on, in order."""
    if not any(isinstance(op, _CHECKS) for op in loop.body.ops):
        return ()
    inside = set(_defined(loop))
    movable: dict[Value, Op] = {}  # loop-invariant ops inside
    for op in loop.body.ops:
        if _may_end_the_turn(op):
            break  # later ops are not reached by every iteration
        operands_move = all(value in movable or value not in inside for value in op.operands)
        if operands_move and _can_move(op, movable):
            movable.update((value, op) for value in op.results)
    return tuple(_needed(list(dict.fromkeys(movable.values()))))


def _needed(movable: list[Op]) -> list[Op]:
    """Checks among some ops, and the ops that they need."""
    values: set[Value] = set()
    found: list[Op] = []
    for op in reversed(movable):
        if isinstance(op, _CHECKS) or not values.isdisjoint(op.results):
            values.update(op.operands)
            found.append(op)
    return found[::-1]


def _can_move(op: Op, movable: dict[Value, Op]) -> bool:
    if any(not isinstance(value.type, TileType) or value.type.shape for value in op.results):
        return False
    if isinstance(op, CeilDiv | FloorDiv | FloorMod):
        return _is_never_zero(movable.get(op.rhs))
    return isinstance(op, _CHECKS) or (type(op) in _TOTAL and _promises_nothing(op))


def _is_never_zero(divisor: Op | None) -> bool:
    """Whether a divisor is non-zero even before the loop, without the loop's facts."""
    if isinstance(divisor, Constant):
        return bool(divisor.value)
    return isinstance(divisor, DivisorCheck)


def _promises_nothing(op: Op) -> bool:
    return getattr(op, "overflow", Overflow.NONE) is Overflow.NONE


def _defined(loop: For) -> Iterator[Value]:
    yield from loop.body.args
    for op in loop.body.ops:
        for inner in op.walk():
            yield from inner.results
            for block in inner.regions:
                yield from block.args


def _may_end_the_turn(op: Op) -> bool:
    if isinstance(op, Break | Continue | Return):
        return True
    # Inside an inner loop, only a return ends an iteration of this one.
    ends = _may_end_the_turn if isinstance(op, If) else _returns
    return any(ends(inner) for block in op.regions for inner in block.ops)


def _returns(op: Op) -> bool:
    return any(isinstance(inner, Return) for inner in op.walk())
