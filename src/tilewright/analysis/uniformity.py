"""Which values are equal in all blocks, and which ops all blocks reach alike.

Forward, over the whole function until nothing changes: everything counts as equal until something
shows otherwise. Blocks differ by their place in the grid, the tiles they walk, atomics, and what
they read from memory that the kernel writes; and by whatever depends on those, as data or through
a branch or a loop that they take differently. For rules about ranges that all blocks must agree
on; not for deciding what may be computed once.
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
    """Analyse a function. `outputs` are parameters that it may write, beside those it does."""
    found = Uniformity(ReadOnlyMemory(function, outputs))
    size = -1
    while size != found.size:
        size = found.size
        found.visit(function.body, parted=False)
    return found


class Uniformity:
    """What was found about one function."""

    def __init__(self, memory: ReadOnlyMemory) -> None:
        self._memory = memory
        self._varying: set[Value] = set()
        self._parted: set[Op] = set()

    def is_uniform(self, value: Value) -> bool:
        """Whether all blocks that compute the value get the same one."""
        return value not in self._varying

    def is_reached_alike(self, op: Op) -> bool:
        """Whether all blocks come to the op alike; that walks are longer in some does not count."""
        return op not in self._parted

    @property
    def size(self) -> int:
        """How much is known to differ; it only grows."""
        return len(self._varying) + len(self._parted)

    def visit(self, block: Block, parted: bool) -> bool:
        """Go through a block. True if some blocks may then have left it and others not."""
        left = False
        for op in block.ops:
            if parted or left:
                self._parted.add(op)
            rule = _RULES.get(type(op), _compute)
            left = rule(self, op) or left
        return left

    def vary(self, values: Collection[Value]) -> None:
        """Values that differ between blocks."""
        self._varying.update(values)

    def varies(self, values: Collection[Value]) -> bool:
        """Whether one of the values differs between blocks."""
        return not self._varying.isdisjoint(values)

    def is_parted(self, op: Op) -> bool:
        """Whether blocks come to an op differently."""
        return op in self._parted

    def may_differ(self, op: Op) -> bool:
        """Whether an op gives blocks different values although its operands are equal."""
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
        uniform.visit(op.body, parted=True)  # as a later turn
    if differs or left:
        uniform.vary((*carried, *op.results))
    _hand_on(uniform, op.init_values, carried)
    _hand_on(uniform, carried, op.results)
    for end in _ends(op.body):
        _hand_on(uniform, end.operands, carried if isinstance(end, Continue) else op.results)
    # Only a return goes further than the loop; a block whose walk has no turn does not get there.
    return (left or walked) and any(isinstance(inner, Return) for inner in op.walk())


def _hand_on(uniform: Uniformity, sources: tuple[Value, ...], values: tuple[Value, ...]) -> None:
    """Values that receive others, place by place."""
    uniform.vary([v for s, v in zip(sources, values, strict=False) if uniform.varies((s,))])


def _last_ends(loop: For | Loop | Walk) -> Iterator[Op]:
    """The ways out of a loop other than its end."""
    yield from (end for end in _ends(loop.body) if isinstance(end, Break))
    yield from (inner for inner in loop.walk() if isinstance(inner, Return))


def _ends(block: Block) -> Iterator[Op]:
    """The ways to a loop's next turn and out of it."""
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
