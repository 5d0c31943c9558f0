"""`if`: which names come out of a branch, and with what type.

A name assigned in a branch keeps one value only if both branches give it one of the same type.
"""

from __future__ import annotations

import ast

from tilewright.frontend.comparisons import truth
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.merging import merged
from tilewright.frontend.operands import Operand, Poison, Static, TileOperand, Unset
from tilewright.ir.op import Block
from tilewright.ir.ops.control import If, Yield
from tilewright.ir.types import Type

__all__ = ["if_statement"]

Scope = dict[str, Operand]


def if_statement(lo: Lowering, node: ast.If) -> None:
    """A branch; one whose condition is known now is taken now."""
    condition = truth(lo, node.test, lo.expression(node.test))
    if isinstance(condition, Static):
        lo.statements(node.body if condition.value else node.orelse)
        return
    assert isinstance(condition, TileOperand)
    before = dict(lo.frame.scope)
    then_body, then_scope = _branch(lo, node.body, before)
    else_body, else_scope = _branch(lo, node.orelse, before)
    _join(lo, node, condition, (then_body, then_scope), (else_body, else_scope))


def _branch(lo: Lowering, nodes: list[ast.stmt], before: Scope) -> tuple[Block, Scope]:
    block = Block()
    lo.frame.scope = dict(before)
    lo.frame.block_depth += 1
    with lo.builder.inside(block):
        lo.statements(nodes)
    lo.frame.block_depth -= 1
    return block, lo.frame.scope


def _join(
    lo: Lowering,
    node: ast.If,
    condition: TileOperand,
    then: tuple[Block, Scope],
    orelse: tuple[Block, Scope],
) -> None:
    """One value for each name that a branch may have set."""
    (then_body, then_scope), (else_body, else_scope) = then, orelse
    lo.frame.scope = dict(else_scope)
    handed_on: list[tuple[str, TileOperand, TileOperand]] = []
    for name in {**then_scope, **else_scope}:
        left, right = then_scope.get(name), else_scope.get(name)
        if left is right and left is not None:
            continue
        pair = _one_value(lo, node, name, (then_body, left), (else_body, right))
        if isinstance(pair, tuple):
            handed_on.append((name, *pair))
        else:
            lo.frame.scope[name] = pair
    then_body.ops.append(Yield(values=tuple(left.value for _, left, _ in handed_on)))
    else_body.ops.append(Yield(values=tuple(right.value for _, _, right in handed_on)))
    types: tuple[Type, ...] = tuple(left.type for _, left, _ in handed_on)
    op = If(condition=condition.value, then_body=then_body, else_body=else_body, types=types)
    lo.builder.add(op)
    for (name, left, _), value in zip(handed_on, op.result_values, strict=True):
        value.dtype, value.hint = left.dtype, name
        lo.frame.scope[name] = TileOperand(value, left.dtype)


def _one_value(
    lo: Lowering,
    node: ast.If,
    name: str,
    left: tuple[Block, Operand | None],
    right: tuple[Block, Operand | None],
) -> Operand | tuple[TileOperand, TileOperand]:
    if isinstance(left[1], Poison) or isinstance(right[1], Poison):
        return Poison()
    if left[1] is None or right[1] is None:
        return Unset("only one branch of an `if` sets it", "set it in every branch, or before")
    for side in (left[1], right[1]):
        if isinstance(side, Unset):
            return side
    pair = merged(lo, node, (left[0], left[1]), (right[0], right[1]))
    if pair is None:
        reason = f"one branch of an `if` makes it {left[1]} and the other {right[1]}"
        return Unset(reason, _one_type(left[1], right[1]))
    return pair


def _one_type(left: Operand, right: Operand) -> str:
    if isinstance(left, TileOperand) and isinstance(right, TileOperand):
        return "both branches must give it one dtype and one shape"
    return "a branch can choose between tiles and numbers only: use it inside the branches"
