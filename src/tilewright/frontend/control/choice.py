"""Conditional expressions: `a if c else b`, `and`/`or`, `a < b < c`.

If the conditional part is pure (no memory, no check), both parts are computed and one is selected;
otherwise the part runs under a branch.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial

from tilewright.check.errors.types import WrongOperand
from tilewright.dtypes import bool_
from tilewright.frontend.control.merging import Split, choose, merged
from tilewright.frontend.expressions.comparisons import compared, logical_and, logical_or, truth
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.operands import Operand, Static, TileOperand
from tilewright.frontend.operands.tiles import as_tile
from tilewright.ir.op import Block, Effect
from tilewright.ir.ops.control import If, Yield
from tilewright.ir.ops.elementwise import Select
from tilewright.ir.ops.internal import BoundsCheck, DivisorCheck

__all__ = ["bool_op", "compare", "if_expression"]


def can_be_noticed(block: Block) -> bool:
    """Whether these ops have an effect or may fail a check."""
    return any(
        inner.effect is not Effect.NONE or isinstance(inner, (BoundsCheck, DivisorCheck))
        for op in block.ops
        for inner in op.walk()
    )


def bool_op(lo: Lowering, node: ast.BoolOp) -> Operand:
    """`and`, `or`: a right side with effects runs only if the left one does not decide.

    For constants the result is the deciding one, as in Python; otherwise a truth value.
    """
    is_and = isinstance(node.op, ast.And)
    first, *others = node.values
    place, result = first, lo.expression(first)
    for item in others:
        if isinstance(result, Static):
            if bool(result.value) != is_and:
                return result
            place, result = item, lo.expression(item)
            continue
        left = truth(lo, place, result)
        assert isinstance(left, TileOperand)
        result = _guarded(lo, item, left, partial(lo.expression, item), is_and=is_and)
        place = item
    return result


def compare(lo: Lowering, node: ast.Compare) -> Operand:
    """`a < b <= c`: neighbouring pairs, all true; operands after a false pair are not computed."""
    return _chained(lo, node, lo.expression(node.left), 0)


def _chained(lo: Lowering, node: ast.Compare, left: Operand, first: int) -> Operand:
    """The pairs of a chain from `first` on, whose left operand is lowered already."""
    right = lo.expression(node.comparators[first])
    result = compared(lo, node, node.ops[first], left, right)
    if first + 1 == len(node.ops) or (isinstance(result, Static) and not result.value):
        return result
    if isinstance(result, Static):
        return _chained(lo, node, right, first + 1)
    assert isinstance(result, TileOperand)
    if result.shape:
        return logical_and(lo, node, result, _chained(lo, node, right, first + 1))
    return _guarded(lo, node, result, lambda: _chained(lo, node, right, first + 1), is_and=True)


def _guarded(
    lo: Lowering,
    node: ast.expr,
    left: TileOperand,
    compute: Callable[[], Operand],
    *,
    is_and: bool,
) -> Operand:
    """`left and …` or `left or …`, where `left` is a scalar known only in the kernel."""
    block = Block()
    with lo.builder.inside(block):
        right = truth(lo, node, compute())
        if can_be_noticed(block):
            lo.builder.add(Yield(values=(as_tile(lo, node, right, bool_).value,)))
    if not can_be_noticed(block):
        lo.builder.block.ops.extend(block.ops)
        return (logical_and if is_and else logical_or)(lo, node, left, right)
    known = Block()
    with lo.builder.inside(known):
        answer = lo.builder.constant(0 if is_and else 1, bool_.element)
        lo.builder.add(Yield(values=(answer,)))
    then_body, else_body = (block, known) if is_and else (known, block)
    types = (left.type,)
    op = If(
        condition=left.value, then_body=then_body, else_body=else_body, types=types, dtype=bool_
    )
    return TileOperand(lo.builder.add(op).result_values[0], bool_)


def if_expression(lo: Lowering, node: ast.IfExp) -> Operand:
    """`a if condition else b`; a compile-time condition lowers one side alone."""
    condition = truth(lo, node.test, lo.expression(node.test))
    if isinstance(condition, Static):
        return lo.expression(node.body if condition.value else node.orelse)
    assert isinstance(condition, TileOperand)
    return _chosen(lo, node, condition)


def _chosen(lo: Lowering, node: ast.IfExp, condition: TileOperand) -> Operand:
    then_body, else_body = Block(), Block()
    with lo.builder.inside(then_body):
        left = lo.expression(node.body)
    with lo.builder.inside(else_body):
        right = lo.expression(node.orelse)
    plan = merged(lo, node, (then_body, left), (else_body, right))
    if plan is None:
        what, reason = "a condition cannot choose here", f"these are {left} and {right}"
        way_out = "both sides must be tiles or numbers of one dtype and one shape"
        lo.reject(WrongOperand, node, what, reason, way_out)
    is_noticed = can_be_noticed(then_body) or can_be_noticed(else_body)
    if is_noticed or any(split.left.shape for split in plan.splits):
        [result] = choose(lo, condition, (then_body, else_body), [("", plan)])
        return result
    lo.builder.block.ops.extend((*then_body.ops, *else_body.ops))
    return plan.filled(iter([_selected(lo, condition, split) for split in plan.splits]))


def _selected(lo: Lowering, condition: TileOperand, split: Split) -> TileOperand:
    """One of two scalars."""
    dtype = split.left.dtype
    select = Select(
        cond=condition.value,
        val_if_true=split.left.value,
        val_if_false=split.right.value,
        dtype=dtype,
    )
    return TileOperand(lo.builder.add(select).result, dtype)
