"""Uniformity: values that are equal in all blocks, and ops that all blocks reach equally.

Forward, over the whole function to a fixed point: every value counts as uniform until an op shows
otherwise. Sources of divergence are the place in the grid, the tiles of a walk, atomics, and loads
from memory that the kernel writes; divergence spreads through operands, and through a branch or a
loop with a divergent condition. For rules about ranges that all blocks must agree on; not for
hoisting.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from tilewright.analysis.read_only import ReadOnlyMemory
from tilewright.ir.function import Function
from tilewright.ir.op import Block, Effect, Op, Value
from tilewright.ir.ops.control import Break, Continue, For, GetTileBlockId, If, Loop, Return
from tilewright.ir.ops.internal import BlockIndex, Walk

__all__ = ["Uniformity", "find_uniform"]


def find_uniform(function: Function, outputs: Collection[str] = ()) -> Uniformity:
    """Analyse a function. `outputs` are parameters that it may write, beside those with a store."""
    found = Uniformity(ReadOnlyMemory(function, outputs))
    size = -1
    while size != found.size:
        size = found.size
        found.visit(function.body, parted=False)
    return found


class Uniformity:
    """The uniform values and ops of one function."""

    def __init__(self, memory: ReadOnlyMemory) -> None:
        self._memory = memory
        self._varying: set[Value] = set()
        self._parted: set[Op] = set()

    def is_uniform(self, value: Value) -> bool:
        """Whether all blocks that compute the value get the same one."""
        return value not in self._varying

    def is_reached_alike(self, op: Op) -> bool:
        """Whether all blocks reach the op equally often; the lengths of walks do not count."""
        return op not in self._parted

    @property
    def size(self) -> int:
        """Number of divergent values and ops, which only grows."""
        return len(self._varying) + len(self._parted)

    def visit(self, block: Block, parted: bool) -> bool:
        """Visit a block. True if some blocks may then have left it and others not."""
        left = False
        for op in block.ops:
            if parted or left:
                self._parted.add(op)
            rule = _RULES.get(type(op), _compute)
            left = rule(self, op) or left
        return left

    def vary(self, values: Collection[Value]) -> None:
        """Mark values as divergent."""
        self._varying.update(values)

    def varies(self, values: Collection[Value]) -> bool:
        """Whether one of the values is divergent."""
        return not self._varying.isdisjoint(values)

    def is_parted(self, op: Op) -> bool:
        """Whether control flow at an op is divergent."""
        return op in self._parted

    def may_differ(self, op: Op) -> bool:
        """Whether an op is a source of divergence: uniform operands, a divergent result."""
        return op.effect is Effect.WRITE or (op.effect is Effect.READ and not self._memory.has(op))


def _compute(uniform: Uniformity, op: Op) -> bool:
    inside = [value for block in op.regions for inner in block.ops for value in inner.operands]
    if uniform.varies(op.operands) or uniform.varies(inside) or uniform.may_differ(op):
        uniform.vary(op.results)
    return False


def _differ(uniform: Uniformity, op: Op) -> bool:
    uniform.vary(op.results)
    return False


def _leave(uniform: Uniformity, op: Op) -> bool:
    return uniform.is_parted(op)


def _branch(uniform: Uniformity, op: If) -> bool:
    parted = uniform.varies((op.condition,))
    inner = parted or uniform.is_parted(op)
    left = [uniform.visit(block, inner) for block in op.regions]
    if parted:
        uniform.vary(op.results)
    for block in op.regions:
        _hand_on(uniform, block.ops[-1].operands, op.results)
    return any(left)


def _loop(uniform: Uniformity, op: For | Loop | Walk) -> bool:
    bounds = op.operands[: len(op.operands) - len(op.init_values)]
    walked = isinstance(op, Walk)
    differs = walked or uniform.varies(bounds)
    carried = op.body.args[len(op.body.args) - len(op.init_values) :]
    if differs:
        uniform.vary(op.body.args)
    left = uniform.visit(op.body, uniform.is_parted(op) or (differs and not walked))
    if left and any(uniform.is_parted(end) for end in _last_ends(op)):
        uniform.visit(op.body, parted=True)  # as a later iteration
    if differs or left:
        uniform.vary((*carried, *op.results))
    _hand_on(uniform, op.init_values, carried)
    _hand_on(uniform, carried, op.results)
    for end in _ends(op.body):
        _hand_on(uniform, end.operands, carried if isinstance(end, Continue) else op.results)
    # Only a return leaves more than the loop; a block whose walk is empty does not reach it.
    return (left or walked) and any(isinstance(inner, Return) for inner in op.walk())


def _hand_on(uniform: Uniformity, sources: tuple[Value, ...], values: tuple[Value, ...]) -> None:
    """Propagate divergence from values to those that receive them, pairwise."""
    uniform.vary([v for s, v in zip(sources, values, strict=False) if uniform.varies((s,))])


def _last_ends(loop: For | Loop | Walk) -> Iterator[Op]:
    """The ways out of a loop other than its end."""
    yield from (end for end in _ends(loop.body) if isinstance(end, Break))
    yield from (inner for inner in loop.walk() if isinstance(inner, Return))


def _ends(block: Block) -> Iterator[Op]:
    """The ways to a loop's next iteration and out of it."""
    for op in block.ops:
        if isinstance(op, Break | Continue):
            yield op
        elif isinstance(op, If):
            for inner in op.regions:
                yield from _ends(inner)


_RULES: dict[type[Op], Callable[..., bool]] = {
    BlockIndex: _differ,
    Break: _leave,
    Continue: _leave,
    For: _loop,
    GetTileBlockId: _differ,
    If: _branch,
    Loop: _loop,
    Return: _leave,
    Walk: _loop,
}
