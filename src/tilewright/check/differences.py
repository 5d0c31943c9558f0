"""Causes of divergence, for messages: the op that makes a value differ from block to block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.analysis.uniformity import Uniformity
from tilewright.ir.op import Effect, Op, Value
from tilewright.ir.ops.control import GetTileBlockId, If, Yield
from tilewright.ir.ops.internal import BlockIndex, Walk
from tilewright.ir.rewrite import Definition, is_loop

__all__ = ["Difference", "why_different"]


@dataclass(frozen=True, eq=False)
class Difference:
    """A cause as text, and the last op before it in the author's source, if there is one."""

    source: str
    op: Op | None


def why_different(
    value: Value, uniform: Uniformity, definitions: Mapping[Value, Definition]
) -> Difference:
    """The first cause of a value's divergence, searched backwards from the value."""
    seen: set[Value] = set()
    written: Op | None = None
    while True:
        seen.add(value)
        op = definitions[value].op
        written = op if op.loc is not None else written
        found = _cause(op, uniform)
        behind = next((v for v in _behind(op) if not uniform.is_uniform(v) and v not in seen), None)
        if found is not None or behind is None:
            return Difference(found or "a loop that blocks leave differently", written)
        value = behind


def _cause(op: Op, uniform: Uniformity) -> str | None:
    rule = _CAUSES.get(type(op))
    if rule is not None:
        return rule(uniform, op)
    reads = op.effect is Effect.READ and uniform.may_differ(op)
    return "an element of an output, which other blocks may be changing" if reads else None


def _of_branch(uniform: Uniformity, op: If) -> str | None:
    return "an `if` that blocks take differently" if uniform.varies((op.condition,)) else None


def _of_walk(uniform: Uniformity, op: Walk) -> str:
    return f"the walk of `{op.outputs[0]}`, which is another one in every block"


_CAUSES: dict[type[Op], Callable[[Uniformity, Any], str | None]] = {
    BlockIndex: lambda *_: "the block's place in the grid",
    GetTileBlockId: lambda *_: "the block's place in the grid",
    If: _of_branch,
    Walk: _of_walk,
}


def _behind(op: Op) -> Iterable[Value]:
    """The values that decide the result of an op."""
    yield from op.operands
    for block in op.regions:
        for inner in block.ops:
            if isinstance(inner, Yield) or (is_loop(op) and inner is block.ops[-1]):
                yield from inner.operands
