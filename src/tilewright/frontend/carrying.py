"""What a loop hands on from one turn to the next.

A loop carries the names that its body assigns and that had a value before; what first gets a value
inside has none afterwards, since the body may never run. Which loop it is, what its target means
and which op it becomes is for the caller to say.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass

from tilewright.check.errors.syntax import Unsupported
from tilewright.check.errors.types import CarriedTypeChange
from tilewright.diagnostics import Rejected
from tilewright.dtypes import DType
from tilewright.frontend.lowering import Derived, Lowering, assigned_names
from tilewright.frontend.operands import Minted, Operand, Poison, Static, TileOperand, Unset
from tilewright.frontend.tiles import as_tile, convert, default_dtype, is_static_number
from tilewright.ir.op import Block, Value
from tilewright.ir.ops.control import Continue
from tilewright.ir.types import scalar

__all__ = ["LoopShape", "run_loop"]

Scope = dict[str, Operand]


@dataclass(frozen=True)
class _Carried:
    """A name that a loop hands on from one turn to the next."""

    name: str
    initial: TileOperand


@dataclass(frozen=True)
class LoopShape:
    """What differs between loops: its counters, what the target is, which op it becomes.

    `enter` is given the body's block, whose first arguments are the counters, and says what the
    loop's target is; `leave` is given what is carried at first and the finished body, adds the op
    and says what is carried at last.
    """

    counters: tuple[type[DType], ...]
    enter: Callable[[Block], Operand]
    leave: Callable[[tuple[Value, ...], Block], tuple[Value, ...]]


def run_loop(lo: Lowering, node: ast.For, shape: LoopShape) -> None:
    """Lower a loop's body, with what it carries, and leave the names as they are behind it."""
    before = dict(lo.frame.scope)
    dtypes: dict[str, type[DType]] = {}
    while True:  # a literal that meets a dtype in the body takes it, and the body is redone
        problems = len(lo.problems)
        carried = _carried(lo, node, before, dtypes)
        block, after = _loop_body(lo, node, shape, carried, before)
        learned = _learned_dtypes(carried, after)
        if not learned or len(lo.problems) > problems:
            _close(lo, node, shape, carried, block, after, before)
            return
        dtypes.update(learned)


def _carried(
    lo: Lowering, node: ast.For, before: Scope, dtypes: dict[str, type[DType]]
) -> list[_Carried]:
    found = []
    for name in assigned_names([*node.body]):
        operand = before.get(name)
        if isinstance(operand, TileOperand):
            found.append(
                _Carried(name, convert(lo, operand, dtypes[name]) if name in dtypes else operand)
            )
        elif isinstance(operand, Static) and is_static_number(operand):
            dtype = dtypes.get(name, default_dtype(operand.value))
            made = as_tile(lo, node, operand, dtype)
            found.append(_Carried(name, TileOperand(made.value, dtype, weak=name not in dtypes)))
    return found


def _loop_body(
    lo: Lowering, node: ast.For, shape: LoopShape, carried: list[_Carried], before: Scope
) -> tuple[Block, Scope]:
    counters = tuple(Value(scalar(dtype.element), dtype) for dtype in shape.counters)
    entering = tuple(Value(item.initial.type, item.initial.dtype, item.name) for item in carried)
    block = Block((*counters, *entering))
    lo.frame.scope = dict(before)
    for name in assigned_names([*node.body]):
        if name in before:  # carried or not, a later turn does not see what was there before
            lo.frame.scope[name] = _not_handed_on(before[name])
    for item, value in zip(carried, entering, strict=True):
        lo.frame.scope[item.name] = TileOperand(value, item.initial.dtype, item.initial.weak)
    lo.frame.block_depth += 1
    with lo.builder.inside(block):
        _bind_target(lo, node, shape.enter(block))
        lo.statements(node.body)
    lo.frame.block_depth -= 1
    return block, lo.frame.scope


def _bind_target(lo: Lowering, node: ast.For, operand: Operand) -> None:
    if isinstance(node.target, ast.Name):
        lo.frame.scope[node.target.id] = operand
        return
    if isinstance(node.target, ast.Tuple) and isinstance(operand, Minted):
        lo.reject(
            Unsupported, node.target, "unpacking the index in the loop head",
            "keep it whole, `for at in z.indices():`, and unpack it inside: `i, j = at`",
        )  # fmt: skip
    lo.reject(Unsupported, node.target, "this loop target", "use a name")


def _learned_dtypes(carried: list[_Carried], after: Scope) -> dict[str, type[DType]]:
    """Dtypes that literals met in the body."""
    learned = {}
    for item in carried:
        operand = after.get(item.name)
        if item.initial.weak and isinstance(operand, TileOperand) and not operand.weak:
            learned[item.name] = operand.dtype
    return learned


def _close(
    lo: Lowering,
    node: ast.For,
    shape: LoopShape,
    carried: list[_Carried],
    block: Block,
    after: Scope,
    before: Scope,
) -> None:
    lo.frame.scope = dict(before)
    handed_on = []
    with lo.builder.inside(block):
        for item in carried:
            handed_on.append(_next_value(lo, node, item, after[item.name]))
        lo.builder.add(Continue(values=tuple(tile.value for tile in handed_on)))
    results = shape.leave(tuple(item.initial.value for item in carried), block)
    for item, value in zip(carried, results, strict=True):
        value.dtype, value.hint = item.initial.dtype, item.name
        lo.frame.scope[item.name] = TileOperand(value, item.initial.dtype, item.initial.weak)
    kept = {item.name for item in carried}
    for name in [*assigned_names([*node.body]), *_target_names(node)]:
        if name not in kept:
            lo.frame.scope[name] = _after_loop(name, node, before.get(name), after.get(name))


def _target_names(node: ast.For) -> list[str]:
    return [node.target.id] if isinstance(node.target, ast.Name) else []


def _after_loop(name: str, node: ast.For, before: Operand | None, after: Operand | None) -> Operand:
    """What is left of a name that a loop sets and does not hand on."""
    if isinstance(after, Poison):
        return after
    if isinstance(after, Minted):
        reason = f"an index of `{after.outputs[0]}` ends with the loop that minted it"
        return Unset(reason, "store inside the loop")
    if name in _target_names(node):
        return Unset("it is the variable of a loop that has ended", "use it inside the loop")
    if before is None or isinstance(before, Unset):
        return Unset("it is set only inside a loop, which may not run", "set it before the loop")
    return _not_handed_on(before)


def _not_handed_on(before: Operand) -> Operand:
    """What a name is in a loop that sets it, if it was something that a loop cannot carry."""
    if isinstance(before, (Poison, Unset)):
        return before
    reason = f"a loop sets it, and before it was {before}, which a loop cannot hand on"
    way_out = "start with a tile or a number, or use another name inside the loop"
    return Unset(reason, way_out)


def _next_value(lo: Lowering, node: ast.For, item: _Carried, after: Operand) -> TileOperand:
    if isinstance(after, Poison):
        raise Derived
    if isinstance(after, Unset):
        tile: TileOperand | None = None
    else:
        try:
            tile = as_tile(lo, node, after, item.initial.dtype)
        except Rejected:
            tile = None
    if tile is None or tile.type != item.initial.type or tile.dtype is not item.initial.dtype:
        got = after.reason if isinstance(after, Unset) else str(after)
        where, loop = _last_assignment(node, item.name), lo.span(node.iter)
        lo.reject(CarriedTypeChange, where, item.name, str(item.initial), got, loop)
    return tile


def _last_assignment(node: ast.For, name: str) -> ast.AST:
    """Where the body of a loop last sets a name."""
    found: ast.AST = node.target
    for inner in (inner for statement in node.body for inner in ast.walk(statement)):
        if isinstance(inner, ast.Name) and inner.id == name and isinstance(inner.ctx, ast.Store):
            found = inner
    return found
