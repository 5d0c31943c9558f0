"""Sequences of statements, each of which may leave on some paths.

Where an arm of a branch has left by skipping, the following statements are lowered inside the other
arm, where the negated condition is a fact; the branch is closed at the end of the sequence. Where a
hidden name is known only at run time, the rest is lowered under a branch on that name.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from functools import partial

from tilewright.frontend.control.frames import (
    RESULT,
    RETURNED,
    Arm,
    Departure,
    LoopExit,
    OpenBranch,
    Scope,
)
from tilewright.frontend.control.joins import join
from tilewright.frontend.expressions.comparisons import logical_or
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.operands import Operand, Static, TileOperand
from tilewright.ir.op import Block
from tilewright.ir.ops.control import Break

__all__ = ["Step", "arm", "branch", "sequence", "statements"]

# A lowering step, and its node.
Step = tuple[ast.AST, Callable[[], None]]

# Nested branches of a row of early returns, before a hidden name takes over.
_DEEPEST = 32


def statements(lo: Lowering, nodes: Iterable[ast.stmt]) -> None:
    """Lower statements in order, up to one that leaves on every path."""
    sequence(lo, [(node, partial(lo.statement, node)) for node in nodes])


def sequence(lo: Lowering, steps: Iterable[Step]) -> None:
    """Lower steps in order, each on the paths that have not left."""
    frame = lo.frame
    start = len(frame.opened)
    for node, step in steps:
        if frame.left is None:
            _skip_where_over(lo, node)
            step()
            _leave_loop_if_returned(lo, node)
        if len(frame.opened) - start > _DEEPEST:
            _close_down_to(lo, start)
    _close_down_to(lo, start)


def arm(lo: Lowering, nodes: Iterable[ast.stmt], before: Scope) -> Arm:
    """Lower one side of a branch, from the names before it."""
    block = Block()
    lo.frame.scope, lo.frame.left = dict(before), None
    with lo.builder.inside(block):
        statements(lo, nodes)
    found = Arm(block, lo.frame.scope, lo.frame.left)
    lo.frame.scope, lo.frame.left = before, None
    return found


def branch(lo: Lowering, node: ast.AST, condition: TileOperand, then: Arm, orelse: Arm) -> None:
    """Continue after a branch, or inside one of its arms if the other has left by skipping."""
    before = lo.frame.scope
    lefts = (then.left, orelse.left)
    if lefts in ((Departure.SKIPPING, None), (None, Departure.SKIPPING)):
        is_then = then.left is Departure.SKIPPING
        left, stays = (then, orelse) if is_then else (orelse, then)
        outer = lo.builder.block
        lo.frame.opened.append(OpenBranch(node, condition, left, is_then, outer, before))
        lo.builder.block, lo.frame.scope = stays.block, stays.scope
    else:
        join(lo, node, condition, (then, orelse), before)


def _close_down_to(lo: Lowering, start: int) -> None:
    """Close the branches that were opened since."""
    while len(lo.frame.opened) > start:
        _close(lo, lo.frame.opened.pop())


def _close(lo: Lowering, one: OpenBranch) -> None:
    """Close a branch after the code lowered inside one of its arms."""
    frame = lo.frame
    stays = Arm(lo.builder.block, frame.scope, frame.left)
    lo.builder.block = one.outer
    arms = (one.left, stays) if one.is_then else (stays, one.left)
    with lo.at(one.node):
        join(lo, one.node, one.condition, arms, one.before)


def _skip_where_over(lo: Lowering, node: ast.AST) -> None:
    """If hidden names are known at run time only, lower the rest under a branch on them."""
    frame = lo.frame
    over = {
        name: operand
        for name in frame.skips
        if isinstance(operand := frame.scope.get(name), TileOperand)
    }
    if not over:
        return
    condition: Operand = Static(False)
    with lo.at(node):
        for operand in over.values():
            condition = logical_or(lo, node, condition, operand)
    assert isinstance(condition, TileOperand)
    known: Scope = {name: Static(True) for name in over} if len(over) == 1 else {}
    left = Arm(Block(), {**frame.scope, **known}, Departure.SKIPPING)
    branch(lo, node, condition, left, Arm(Block(), _not_over(frame.scope, over), None))


def _leave_loop_if_returned(lo: Lowering, node: ast.AST) -> None:
    """After an inner loop: if the helper returned inside, leave the outer loop too."""
    scope, exits = lo.frame.scope, lo.frame.exits
    condition = scope.get(RETURNED)
    if exits is None or not isinstance(condition, TileOperand):
        return
    left = Arm(Block(), {**scope, RETURNED: Static(True)}, Departure.JUMPED)
    exits.append(LoopExit(Break, node, left.block, left.scope, returns=True))
    with lo.at(node):
        branch(lo, node, condition, left, Arm(Block(), _not_over(scope, (RETURNED,)), None))


def _not_over(scope: Scope, names: Iterable[str]) -> Scope:
    found: dict[str, Operand] = {**scope, **dict.fromkeys(names, Static(False))}
    if RETURNED in names:
        found.pop(RESULT, None)
    return found
