"""`if` and `for`: which names come out of a block, and with what type.

A name assigned in a branch keeps one value only if both branches give it one of the same type. A
loop carries the names that its body assigns and that had a value before; what first gets a value
inside has none afterwards, since the body may never run.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass

from tilewright.check.errors.syntax import Unsupported
from tilewright.check.errors.types import CarriedTypeChange
from tilewright.diagnostics import Rejected
from tilewright.dtypes import DType, i32
from tilewright.frontend.comparisons import truth
from tilewright.frontend.lowering import Derived, Lowering, assigned_names
from tilewright.frontend.merging import merged
from tilewright.frontend.operands import (
    Minted,
    Operand,
    Poison,
    PythonFunction,
    Static,
    TileOperand,
    Unset,
    WalkRange,
)
from tilewright.frontend.ranges import counted_range
from tilewright.frontend.tensors import tile_count
from tilewright.frontend.tiles import as_tile, convert, default_dtype, is_static_number
from tilewright.ir.op import Block, Value
from tilewright.ir.ops.control import Continue, For, If, Yield
from tilewright.ir.ops.internal import Walk
from tilewright.ir.types import Type, scalar

__all__ = ["for_statement", "if_statement"]

Scope = dict[str, Operand]


# --- if -------------------------------------------------------------------------------------------


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


# --- for ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Carried:
    """A name that a loop hands on from one turn to the next."""

    name: str
    initial: TileOperand


def for_statement(lo: Lowering, node: ast.For) -> None:
    """`for i in range(…)` and `for at in z.indices()`."""
    if node.orelse:
        lo.reject(
            Unsupported, node.orelse[0], "`else` of a loop", "put the statements behind the loop"
        )
    if isinstance(node.iter, ast.Call):
        callee = lo.expression(node.iter.func)
        if isinstance(callee, PythonFunction) and callee.function is range:
            _counted_loop(lo, node, node.iter)
            return
    source = lo.expression(node.iter)
    if not isinstance(source, WalkRange):
        lo.reject(
            Unsupported,
            node.iter,
            f"a loop over {source}",
            "loops run over `range(…)` or `z.indices()`",
        )
    _walk_loop(lo, node, source)


def _counted_loop(lo: Lowering, node: ast.For, call: ast.Call) -> None:
    if not isinstance(node.target, ast.Name):
        lo.reject(
            Unsupported, node.target, "unpacking a loop counter", "name it: `for i in range(n):`"
        )
    bounds = counted_range(lo, call)
    name = node.target.id

    def enter(block: Block) -> Operand:
        counter = block.args[0]
        counter.hint = f"~{name}" if bounds.is_down else name
        number = bounds.number(lo, counter)
        number.value.hint = number.value.hint or name
        return number

    def leave(carried: list[Carried], block: Block) -> tuple[Value, ...]:
        op = For(
            lower_bound=bounds.lower, upper_bound=bounds.upper, step=bounds.step,
            init_values=tuple(item.initial.value for item in carried), body=block,
        )  # fmt: skip
        return lo.builder.add(op).result_values

    _loop(lo, node, _LoopShape((bounds.dtype,), enter, leave))


def _walk_loop(lo: Lowering, node: ast.For, source: WalkRange) -> None:
    output = source.output
    counts = tuple(tile_count(lo, output, axis, extent) for axis, extent in enumerate(output.tile))
    minted: list[Minted] = []

    def enter(block: Block) -> Operand:
        places = block.args[: len(counts)]
        index = Minted(output.name, tuple(TileOperand(place, i32) for place in places), source.span)
        minted.append(index)
        return index

    def leave(carried: list[Carried], block: Block) -> tuple[Value, ...]:
        op = Walk(
            counts=counts, init_values=tuple(item.initial.value for item in carried),
            group=output.spec.group, output=output.name, body=block,
        )  # fmt: skip
        return lo.builder.add(op).result_values

    try:
        _loop(lo, node, _LoopShape((i32,) * len(counts), enter, leave))
    finally:
        for index in minted:
            index.open = False


@dataclass(frozen=True)
class _LoopShape:
    """What differs between loops: its counters, what the target is, which op it becomes."""

    counters: tuple[type[DType], ...]
    enter: Callable[[Block], Operand]
    leave: Callable[[list[Carried], Block], tuple[Value, ...]]


def _loop(lo: Lowering, node: ast.For, shape: _LoopShape) -> None:
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
) -> list[Carried]:
    found = []
    for name in assigned_names([*node.body]):
        operand = before.get(name)
        if isinstance(operand, TileOperand):
            found.append(
                Carried(name, convert(lo, operand, dtypes[name]) if name in dtypes else operand)
            )
        elif isinstance(operand, Static) and is_static_number(operand):
            dtype = dtypes.get(name, default_dtype(operand.value))
            made = as_tile(lo, node, operand, dtype)
            found.append(Carried(name, TileOperand(made.value, dtype, weak=name not in dtypes)))
    return found


def _loop_body(
    lo: Lowering, node: ast.For, shape: _LoopShape, carried: list[Carried], before: Scope
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


def _learned_dtypes(carried: list[Carried], after: Scope) -> dict[str, type[DType]]:
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
    shape: _LoopShape,
    carried: list[Carried],
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
    results = shape.leave(carried, block)
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
        reason = f"an index of `{after.output}` ends with the loop that minted it"
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


def _next_value(lo: Lowering, node: ast.For, item: Carried, after: Operand) -> TileOperand:
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
