"""`if` and `for`: which names come out of a block, and with what type.

A name assigned in a branch keeps one value only if both branches give it one of the same type. A
loop carries the names that its body assigns and that had a value before; what first gets a value
inside has none afterwards, since the body may never run.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass

from tilewright.check.errors.syntax import BadCall, Unsupported
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
from tilewright.frontend.operators import apply_binary
from tilewright.frontend.tensors import tile_count
from tilewright.frontend.tiles import as_index, as_tile, convert, default_dtype, is_static_number
from tilewright.ir.op import Block, Value
from tilewright.ir.ops.control import Continue, For, If, Yield
from tilewright.ir.ops.elementwise import AddI, MulI
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
        return Unset("only one branch of an `if` sets it")
    for side in (left[1], right[1]):
        if isinstance(side, Unset):
            return side
    pair = merged(lo, node, (left[0], left[1]), (right[0], right[1]))
    if pair is None:
        return Unset(f"the branches of an `if` give it {left[1]} and {right[1]}")
    return pair


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
            f"a loop over a {source.kind}",
            "loops run over `range(…)` or `z.indices()`",
        )
    _walk_loop(lo, node, source)


def _counted_loop(lo: Lowering, node: ast.For, call: ast.Call) -> None:
    if not isinstance(node.target, ast.Name):
        lo.reject(
            Unsupported, node.target, "unpacking a loop counter", "name it: `for i in range(n):`"
        )
    lower, upper, step = _range_bounds(lo, call)
    start: Value | None = None
    if step < 0:  # count up, and come down from the start
        start = as_index(lo, call, lower)
        lower, upper = Static(0), _turns_down(lo, call, lower, upper, -step)
    bounds = (
        as_index(lo, call, lower),
        as_index(lo, call, upper),
        lo.builder.index(step if step > 0 else 1),
    )
    name = node.target.id

    def enter(block: Block) -> Operand:
        counter = block.args[0]
        counter.hint = name
        if start is None:
            return TileOperand(counter, i32)
        down = lo.builder.add(MulI(lhs=counter, rhs=lo.builder.index(step), dtype=i32)).result
        return TileOperand(lo.builder.add(AddI(lhs=start, rhs=down, dtype=i32)).result, i32)

    def leave(carried: list[Carried], block: Block) -> tuple[Value, ...]:
        op = For(
            lower_bound=bounds[0], upper_bound=bounds[1], step=bounds[2],
            init_values=tuple(item.initial.value for item in carried), body=block,
        )  # fmt: skip
        return lo.builder.add(op).result_values

    _loop(lo, node, _LoopShape(1, enter, leave))


def _range_bounds(lo: Lowering, call: ast.Call) -> tuple[Operand, Operand, int]:
    if call.keywords or not 1 <= len(call.args) <= 3:
        lo.reject(BadCall, call, "`range`", "it takes a stop, or a start and a stop, and a step")
    operands = [lo.expression(item) for item in call.args]
    step: Operand = operands[2] if len(operands) == 3 else Static(1)
    if not isinstance(step, Static) or not isinstance(step.value, int) or step.value == 0:
        lo.reject(BadCall, call, "`range`", "the step is a constant and not zero")
    lower = operands[0] if len(operands) > 1 else Static(0)
    return lower, operands[min(1, len(operands) - 1)], step.value


def _turns_down(lo: Lowering, node: ast.AST, lower: Operand, upper: Operand, size: int) -> Operand:
    """How often a loop that counts down by `size` runs."""
    distance = apply_binary(lo, node, ast.Sub(), lower, upper)
    rounded = apply_binary(lo, node, ast.Add(), distance, Static(size - 1))
    return apply_binary(lo, node, ast.FloorDiv(), rounded, Static(size))


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
        _loop(lo, node, _LoopShape(len(counts), enter, leave))
    finally:
        for index in minted:
            index.open = False


@dataclass(frozen=True)
class _LoopShape:
    """What differs between loops: how many counters, what the target is, which op it becomes."""

    counters: int
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
    index = scalar(i32.element)
    counters = tuple(Value(index, i32) for _ in range(shape.counters))
    entering = tuple(Value(item.initial.type, item.initial.dtype, item.name) for item in carried)
    block = Block((*counters, *entering))
    lo.frame.scope = dict(before)
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
            lo.frame.scope[name] = _after_loop(name, before.get(name), node)


def _target_names(node: ast.For) -> list[str]:
    return [node.target.id] if isinstance(node.target, ast.Name) else []


def _after_loop(name: str, before: Operand | None, node: ast.For) -> Operand:
    if name in _target_names(node):
        return Unset("it is the variable of a loop that has ended")
    if before is None or isinstance(before, Unset):
        return Unset("it is set only inside a loop, which may not run")
    return Unset(f"a loop sets it, and it was a {before.kind} before, which a loop cannot hand on")


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
        lo.reject(
            CarriedTypeChange, node.target, item.name, str(item.initial), got, lo.span(node.iter)
        )
    return tile
