"""Loop-carried names: block arguments and results of loops.

A loop carries the names that its body assigns and that had a value before; a name first assigned
inside is unset afterwards, since the body may never run, unless every way out has assigned it. A
helper's `return` inside a loop leaves the loop with two hidden names. A `LoopShape` of the caller
defines the target and the op.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tilewright.check.errors.syntax import Unsupported
from tilewright.dtypes import DType
from tilewright.frontend.control.carried_values import (
    Carried,
    LoopNode,
    carried,
    learn_of_exit,
    not_handed_on,
    zero_like,
)
from tilewright.frontend.control.frames import (
    RESULT,
    RETURNED,
    Departure,
    Frame,
    Learned,
    LoopExit,
    Scope,
)
from tilewright.frontend.control.joins import left_behind
from tilewright.frontend.control.merging import is_same_constant
from tilewright.frontend.control.sequences import statements
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.aggregates import leaves
from tilewright.frontend.operands.operands import (
    Minted,
    Operand,
    PieceOperand,
    Poison,
    Static,
    TileOperand,
    Unset,
)
from tilewright.ir.op import Block, Value
from tilewright.ir.ops.control import Break, Continue, Loop
from tilewright.ir.types import scalar

__all__ = ["LoopShape", "run_loop"]


@dataclass(frozen=True)
class LoopShape:
    """The kind of a loop: its counters, its target, and its op.

    `enter` takes the body's block, whose first arguments are the counters, and returns the loop's
    target; `leave` takes the initial values and the finished body, adds the op and returns its
    results. Without `leave` the loop ends by its breaks alone.
    """

    counters: tuple[type[DType], ...]
    enter: Callable[[Block], Operand | None]
    leave: Callable[[tuple[Value, ...], Block], tuple[Value, ...]] | None = None


@dataclass(frozen=True, eq=False)
class _Body:
    """The body of a loop, lowered but for its jumps."""

    block: Block
    carried: tuple[Carried, ...]
    entering: Scope  # carried names at the start of the body
    exits: tuple[LoopExit, ...]

    @property
    def breaks(self) -> tuple[LoopExit, ...]:
        """The reachable ways out."""
        return tuple(one for one in self.exits if one.jump is Break)

    def at_exit(self, one: LoopExit, name: str) -> Operand | None:
        """The operand of a carried name at an end of an iteration."""
        if name == RETURNED:
            return Static(one.returns)
        if one.scope is None or (name == RESULT and not one.returns):
            return self.entering[name]
        return one.scope.get(name)


def run_loop(lo: Lowering, node: LoopNode, shape: LoopShape) -> None:
    """Lower a loop with its carried names, and bind the names after it."""
    before = dict(lo.frame.scope)
    learned = _learned_before(lo, node)
    while True:  # the dtype of a literal is known after the body, which is then lowered again
        problems = len(lo.problems)
        body = _lowered(lo, node, shape, before, learned)
        if len(lo.problems) > problems or not _learn(lo, body, learned):
            break
    results = iter(_add_loop(lo, node, shape, body))
    scope = dict(before)
    names = [*lo.assigned_in(node), *_target_names(node)]
    scope.update((name, _after_loop(node, name, before, body)) for name in names)
    scope.update((item.name, item.held_by(results)) for item in body.carried)
    for name, tile in _set_by_every_break(body) if shape.leave is None else ():
        value = next(results)
        value.dtype, value.hint = tile.dtype, name
        scope[name] = TileOperand(value, tile.dtype)
    lo.frame.scope = scope
    _go_on_if_returned(lo, node, shape, body)


def _learned_before(lo: Lowering, node: LoopNode) -> Learned:
    """The facts that an earlier lowering of this loop learned, in the same context.

    A loop that learns a fact is lowered again, and the loops inside it with it. Inner loops start
    from their facts, or each loop around them would double the work.
    """
    place = lo.frame.calls, tuple(lo.turns), node
    learned = lo.learned.setdefault(place, Learned())
    if learned.results:
        learned.result = zero_like(lo, learned.results)
    return learned


def _lowered(
    lo: Lowering, node: LoopNode, shape: LoopShape, before: Scope, learned: Learned
) -> _Body:
    frame = lo.frame
    items = _carried(lo, node, before, learned)
    counters = tuple(Value(scalar(dtype.element), dtype) for dtype in shape.counters)
    values = tuple(Value(tile.type) for item in items for tile in item.tiles)
    held = iter(values)
    entering = {item.name: item.held_by(held) for item in items}
    frame.scope = {**before, **_not_carried(lo, node, before), **entering}
    frame.scope.pop(RESULT, None)
    if RETURNED in entering:
        frame.scope[RETURNED] = Static(False)  # otherwise the loop would have ended
    with _turn(frame) as exits, lo.builder.inside(Block((*counters, *values))) as block:
        _bind_target(lo, node, shape.enter(block))
        statements(lo, node.body)
        if frame.left is None:
            exits.append(LoopExit(Continue, node, block, frame.scope))
    frame.scope, frame.left = before, None
    return _Body(block, items, entering, tuple(exits))


@contextmanager
def _turn(frame: Frame) -> Iterator[list[LoopExit]]:
    """A context in which `break` and `continue` belong to this loop."""
    outer = frame.exits, frame.unrolled
    frame.exits, frame.unrolled = [], None
    try:
        yield frame.exits
    finally:
        frame.exits, frame.unrolled = outer


def _carried(lo: Lowering, node: LoopNode, before: Scope, learned: Learned) -> tuple[Carried, ...]:
    starts = {name: before[name] for name in lo.assigned_in(node) if name in before}
    if lo.frame.is_inlined and _returns(node):
        starts[RETURNED] = Static(False)
        if learned.result is not None:
            starts[RESULT] = learned.result
    found = (carried(lo, node, name, operand, learned) for name, operand in starts.items())
    return tuple(item for item in found if item is not None)


def _returns(node: LoopNode) -> bool:
    """Whether the body of a loop contains a `return`; that of a nested function does not count."""
    pending: list[ast.AST] = [*node.body]
    while pending:
        inner = pending.pop()
        if isinstance(inner, ast.Return):
            return True
        if not isinstance(inner, (ast.FunctionDef, ast.Lambda)):
            pending.extend(ast.iter_child_nodes(inner))
    return False


def _not_carried(lo: Lowering, node: LoopNode, before: Scope) -> Scope:
    """The assigned names that the loop does not carry: unset in its body."""
    names = [name for name in lo.assigned_in(node) if name in before]
    return {name: not_handed_on(before[name]) for name in names}


def _bind_target(lo: Lowering, node: LoopNode, operand: Operand | None) -> None:
    if operand is None or isinstance(node, ast.While):
        return
    if isinstance(node.target, ast.Name):
        lo.frame.scope[node.target.id] = operand
        return
    if isinstance(node.target, ast.Tuple) and isinstance(operand, Minted):
        lo.reject(
            Unsupported, node.target, "unpacking the index in the loop head",
            "keep it whole, `for at in z.indices():`, and unpack it inside: `i, j = at`",
        )  # fmt: skip
    lo.reject(Unsupported, node.target, "this loop target", "use a name")


def _learn(lo: Lowering, body: _Body, learned: Learned) -> bool:
    """Record facts that need the lowered body; whether there are any."""
    found = [
        learn_of_exit(learned, item, body.at_exit(one, item.name))
        for item in body.carried
        for one in body.exits
    ]
    results = [one.scope[RESULT] for one in body.exits if one.returns and one.scope is not None]
    if results and learned.result is None and not _is_fixed(results):
        learned.results, learned.result = results, zero_like(lo, results)
        return True
    return any(found)


def _is_fixed(results: list[Operand]) -> bool:
    """Whether a helper returns the same constant at every `return`."""
    has_tiles = any(isinstance(leaf, TileOperand) for _, leaf in leaves(results[0]))
    return not has_tiles and all(is_same_constant(result, results[0]) for result in results)


# --- after the loop -------------------------------------------------------------------------------


def _add_loop(lo: Lowering, node: LoopNode, shape: LoopShape, body: _Body) -> tuple[Value, ...]:
    """Add the jumps, with the carried values as operands, and the loop."""
    extra = _set_by_every_break(body) if shape.leave is None else ()
    for one in body.exits:
        with lo.builder.inside(one.block), lo.at(one.node):
            tiles = [
                tile
                for item in body.carried
                for tile in item.handed_on(lo, node, body.at_exit(one, item.name))
            ]
            if one.jump is Break and one.scope is not None:
                own = (one.scope[name] for name, _ in extra)
                tiles += [tile for tile in own if isinstance(tile, TileOperand)]
            lo.builder.add(one.jump(values=tuple(tile.value for tile in tiles)))
    inits = tuple(tile.value for item in body.carried for tile in item.tiles)
    if shape.leave is not None:
        return shape.leave(inits, body.block)
    types = (*(value.type for value in inits), *(tile.type for _, tile in extra))
    loop = Loop(init_values=inits, body=body.block, types=types)
    return lo.builder.add(loop).result_values


def _set_by_every_break(body: _Body) -> tuple[tuple[str, TileOperand], ...]:
    """Names that the loop does not carry, and that are tiles of one type at every way out."""
    scopes = [one.scope for one in body.breaks if one.scope is not None]
    found = []
    for name, first in scopes[0].items() if scopes else ():
        tiles = [scope.get(name) for scope in scopes]
        if name not in body.entering and isinstance(first, TileOperand) and _are_one_type(tiles):
            found.append((name, first))
    return tuple(found)


def _are_one_type(operands: list[Operand | None]) -> bool:
    tiles = [operand for operand in operands if isinstance(operand, TileOperand)]
    types = {(tile.type, tile.dtype) for tile in tiles}
    return len(tiles) == len(operands) and len(types) == 1


def _target_names(node: LoopNode) -> list[str]:
    target = node.target if isinstance(node, ast.For) else None
    return [target.id] if isinstance(target, ast.Name) else []


def _after_loop(node: LoopNode, name: str, before: Scope, body: _Body) -> Operand:
    """The operand of a name that a loop assigns and does not carry."""
    start = before.get(name)
    ends = [one.scope.get(name) for one in body.exits if one.scope is not None]
    if any(isinstance(end, Poison) for end in ends):
        return Poison()
    minted = next((end for end in ends if isinstance(end, Minted)), None)
    if minted is not None:
        reason = f"an index of `{minted.outputs[0]}` ends with the loop that minted it"
        return Unset(reason, "store inside the loop")
    if name in _target_names(node):
        return Unset("it is the variable of a loop that has ended", "use it inside the loop")
    if start is None or isinstance(start, Unset):
        return Unset("it is set only inside a loop, which may not run", "set it before the loop")
    return not_handed_on(start)


def _go_on_if_returned(lo: Lowering, node: LoopNode, shape: LoopShape, body: _Body) -> None:
    """Lower the code after a loop in which a helper may have returned."""
    returned = [one for one in body.breaks if one.returns]
    if not returned:
        if RETURNED in body.entering:
            lo.frame.scope[RETURNED] = Static(False)
        return
    if RESULT not in body.entering and returned[0].scope is not None:
        result = returned[0].scope[RESULT]  # the same at every `return`
        unset = left_behind(result) or _left_in_loop(result)
        lo.frame.scope[RESULT] = unset or result
    if shape.leave is None and len(returned) == len(body.breaks):
        lo.frame.scope[RETURNED] = Static(True)  # there is no other way out
        _leave(lo, node)


def _left_in_loop(operand: Operand) -> Unset | None:
    """Why a piece is not visible after a loop: it may be that of one step of a walk."""
    for _, leaf in leaves(operand):
        if isinstance(leaf, PieceOperand):
            return Unset(f"a piece of {leaf} ends with the loop", "use it inside the loop")
    return None


def _leave(lo: Lowering, node: LoopNode) -> None:
    frame = lo.frame
    if frame.exits is None:
        frame.left = Departure.SKIPPING
        return
    one = LoopExit(Break, node, lo.builder.block, dict(frame.scope), returns=True)
    frame.exits.append(one)
    frame.left = Departure.JUMPED
