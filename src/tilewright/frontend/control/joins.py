"""Joins: the names after the two arms of a branch, either of which may have left.

An arm leaves in one of two ways. It *jumps* where the IR has a jump for it: `break` and `continue`
of a loop, `return` of the kernel. Then the other arm alone defines the names. Or it *skips*: a
helper is inlined and an unrolled loop is no loop, so the IR has no jump for a `return` out of the
one or a `break` out of the other. Then a hidden name is true on this path, which skips the code
after the branch; that code goes into the other arm, or, where that does not suffice, under a branch
of its own.
"""

from __future__ import annotations

import ast

from tilewright.frontend.control.frames import RESULT, RETURNED, Arm, Departure, LoopExit, Scope
from tilewright.frontend.control.merging import Merged, choose, filler, merged, refuse_results
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.aggregates import leaves, refilled
from tilewright.frontend.operands.operands import (
    Method,
    Operand,
    PiecePartition,
    PointerOperand,
    Poison,
    TileOperand,
    Unset,
    WalkRange,
)
from tilewright.ir.ops.control import Continue, If, Return, Yield

__all__ = ["join", "left_behind"]


def join(
    lo: Lowering, node: ast.AST, condition: TileOperand, arms: tuple[Arm, Arm], before: Scope
) -> None:
    """Add the branch and bind the names after it."""
    then, orelse = arms
    if then.left is orelse.left is Departure.JUMPED:
        _add_branch(lo, condition, arms, ())
        _end_unreachable(lo, node)
    elif Departure.JUMPED in (then.left, orelse.left):
        _go_on_with_one(lo, condition, arms, before)
    else:
        _join_names(lo, node, condition, arms)


def _end_unreachable(lo: Lowering, node: ast.AST) -> None:
    """Terminate an unreachable block, since the IR needs a terminator there too."""
    if lo.frame.exits is None:
        lo.builder.add(Return())
    else:
        lo.frame.exits.append(LoopExit(Continue, node, lo.builder.block, None))
    lo.frame.left = Departure.JUMPED


def _add_branch(
    lo: Lowering,
    condition: TileOperand,
    arms: tuple[Arm, Arm],
    tiles: tuple[TileOperand, ...],
) -> tuple[TileOperand, ...]:
    """Add a branch of which at most one side continues, and return that side's results."""
    then, orelse = arms
    for arm in arms:
        if arm.left is not Departure.JUMPED:
            arm.block.ops.append(Yield(values=tuple(tile.value for tile in tiles)))
    op = If(
        condition=condition.value, then_body=then.block, else_body=orelse.block,
        types=tuple(tile.type for tile in tiles),
    )  # fmt: skip
    found = []
    for tile, value in zip(tiles, lo.builder.add(op).result_values, strict=True):
        value.dtype, value.hint = tile.dtype, tile.value.hint
        found.append(TileOperand(value, tile.dtype, tile.weak))
    return tuple(found)


# --- one arm has jumped ---------------------------------------------------------------------------


def _go_on_with_one(
    lo: Lowering, condition: TileOperand, arms: tuple[Arm, Arm], before: Scope
) -> None:
    """After a branch that one side left, every name has its value from the other side."""
    then, orelse = arms
    stays = orelse if then.left is Departure.JUMPED else then
    changed = [name for name in stays.scope if stays.scope[name] is not before.get(name)]
    inside = [
        leaf
        for name in changed
        for _, leaf in leaves(stays.scope[name])
        if isinstance(leaf, TileOperand)
    ]
    given = iter(_add_branch(lo, condition, arms, tuple(inside)))
    scope = dict(stays.scope)
    for name in changed:
        members = [leaf for _, leaf in leaves(scope[name])]
        found = [next(given) if isinstance(leaf, TileOperand) else leaf for leaf in members]
        scope[name] = left_behind(scope[name]) or refilled(scope[name], iter(found))
    lo.frame.scope = scope
    lo.frame.left = stays.left


# Operands with SSA values that are local to their region.
_LOCAL = (Method, PiecePartition, PointerOperand, WalkRange)


def left_behind(operand: Operand) -> Unset | None:
    """Why an operand made in a branch, or in a loop, is not visible after it."""
    for path, leaf in leaves(operand):
        if isinstance(leaf, _LOCAL):
            made = f"it {'holds' if path else 'is'} {leaf}, made in a branch or a loop"
            return Unset(f"{made}, which cannot hand it on", "make it before")
    return None


# --- both arms define names -----------------------------------------------------------------------


def _join_names(lo: Lowering, node: ast.AST, condition: TileOperand, arms: tuple[Arm, Arm]) -> None:
    """One value for each name that an arm may have assigned; neither has jumped."""
    then, orelse = arms
    scope = dict(orelse.scope)
    plans: list[tuple[str, Merged]] = []
    for name in {**then.scope, **orelse.scope}:
        left, right = then.scope.get(name), orelse.scope.get(name)
        if left is right and left is not None:
            continue
        plan = _one_value(lo, node, name, then, orelse)
        if isinstance(plan, Merged):
            plans.append((name, plan))
        else:
            scope[name] = plan
    results = choose(lo, condition, (then.block, orelse.block), plans)
    scope.update(zip((name for name, _ in plans), results, strict=True))
    lo.frame.scope = scope
    both = then.left is orelse.left is Departure.SKIPPING
    lo.frame.left = Departure.SKIPPING if both else None


def _one_value(
    lo: Lowering, node: ast.AST, name: str, then: Arm, orelse: Arm
) -> Merged | Unset | Poison:
    left, right = then.scope.get(name), orelse.scope.get(name)
    if isinstance(left, Poison) or isinstance(right, Poison):
        return Poison()
    if _is_idle(then, orelse, name):
        left = _idle_value(lo, then, right)
    elif _is_idle(orelse, then, name):
        right = _idle_value(lo, orelse, left)
    if left is None or right is None:
        return Unset("only one branch of an `if` sets it", "set it in every branch, or before")
    for side in (left, right):
        if isinstance(side, Unset):
            return side
    plan = merged(lo, node, (then.block, left), (orelse.block, right))
    if plan is None and name == RESULT:
        refuse_results(lo, node, str(left), str(right))
    reason = f"one branch of an `if` makes it {left} and the other {right}"
    return plan or Unset(reason, _one_type(left, right))


def _is_idle(arm: Arm, other: Arm, name: str) -> bool:
    """Whether the value of a name at the end of an arm is dead."""
    if name == RESULT:
        return name not in arm.scope
    return name != RETURNED and arm.has_returned and not other.has_returned


def _idle_value(lo: Lowering, arm: Arm, other: Operand | None) -> Operand | None:
    """A placeholder of the type that the name has in the other arm."""
    if other is None or isinstance(other, Unset):
        return other
    unset = left_behind(other)
    if unset is not None:
        return unset
    with lo.builder.inside(arm.block):
        return filler(lo, other)


def _one_type(left: Operand, right: Operand) -> str:
    if isinstance(left, TileOperand) and isinstance(right, TileOperand):
        return "both branches must give it one dtype and one shape"
    return "a branch can choose between tiles and numbers only: use it inside the branches"
