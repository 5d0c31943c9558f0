"""One output has one walk: the same range at every visit, equal in all blocks.

A walk deals the tiles of its range out to the blocks by number, so a tile belongs to one block only
if all blocks agree on the range. Input is the IR of the front end, with all declared outputs. The
front end itself ensures that an index comes from a walk of the very output.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tilewright.analysis.equal_values import EqualValues
from tilewright.analysis.uniformity import Uniformity, find_uniform
from tilewright.check.differences import why_different
from tilewright.check.errors.walks import (
    NotWalkedAlike,
    RangeDiffersBetweenBlocks,
    RangeDiffersBetweenVisits,
    TwoRanges,
)
from tilewright.diagnostics import Problem
from tilewright.ir.function import Function
from tilewright.ir.op import Op
from tilewright.ir.ops.control import Break, Continue, For, If, Return
from tilewright.ir.ops.internal import Walk
from tilewright.ir.rewrite import definitions, is_loop, nested_ops
from tilewright.source import Location, Span

__all__ = ["check_walks"]


def check_walks(function: Function, outputs: Collection[str]) -> list[Problem]:
    """Problems of the walks of a function that may write these outputs."""
    walks = [op for op in function.walk() if isinstance(op, Walk)]
    return list(_Walks(function, outputs).problems(walks)) if walks else []


# Identity of a walk's range: its group, and for each axis of a sub-range the axis and the value
# numbers of its ends.
_Range = tuple[object, ...]


class _Walks:
    def __init__(self, function: Function, outputs: Collection[str]) -> None:
        self._function = function
        self._uniform = find_uniform(function, outputs)
        self._definitions = definitions(function)
        self._values = EqualValues(function, outputs)
        self._first: dict[str, tuple[_Range, Walk]] = {}

    def problems(self, walks: list[Walk]) -> Iterator[Problem]:
        for walk in walks:
            found = [*self._reached(walk), *self._ranges(walk)]
            yield from found
            if not found:
                yield from self._compared(walk)

    def _reached(self, walk: Walk) -> Iterator[Problem]:
        if not self._uniform.is_reached_alike(walk):
            parting = _parting(self._function, walk, self._uniform)
            at = _location(walk)
            yield NotWalkedAlike(at.span, walk.outputs[0], _span(parting), calls=at.calls)

    def _ranges(self, walk: Walk) -> Iterator[Problem]:
        at, output = _location(walk), walk.outputs[0]
        for axis, ends in walk.ranges.items():
            differing = [end for end in ends if not self._uniform.is_uniform(end)]
            if differing:
                why = why_different(differing[0], self._uniform, self._definitions)
                yield RangeDiffersBetweenBlocks(
                    at.span, output, axis, why.source, _span(why.op), calls=at.calls
                )
            elif None in map(self._values.number, ends):
                loop = _span(_loops_around(self._function, walk)[-1])
                yield RangeDiffersBetweenVisits(at.span, output, axis, loop, calls=at.calls)

    def _compared(self, walk: Walk) -> Iterator[Problem]:
        ends = (
            (axis, *map(self._values.number, pair)) for axis, pair in sorted(walk.ranges.items())
        )
        own: _Range = (walk.group, *ends)
        for output in walk.outputs:
            other, first = self._first.setdefault(output, (own, walk))
            if other != own:
                at = _location(walk)
                yield TwoRanges(at.span, output, _span(first), calls=at.calls)


def _location(op: Op) -> Location:
    assert op.loc is not None, "walks of the front end have a place in the source"
    return op.loc


def _span(op: Op | None) -> Span | None:
    return None if op is None or op.loc is None else op.loc.span


def _loops_around(function: Function, walk: Walk) -> list[Op]:
    """The loops around a walk, the innermost last."""
    return [op for op in function.walk() if is_loop(op) and walk in set(nested_ops(op))]


def _parting(function: Function, walk: Walk, uniform: Uniformity) -> Op | None:
    """The last divergent branch or loop before a walk or around it.

    If there is none, then one after it in a loop around both: it precedes the next iteration.
    """
    ops = list(function.walk())
    later = [op for loop in _loops_around(function, walk) for op in nested_ops(loop)]
    for candidates in (reversed(ops[: ops.index(walk)]), later):
        for op in candidates:
            if _parts(op, uniform) and _matters_to(op, walk):
                return op
    return None


def _parts(op: Op, uniform: Uniformity) -> bool:
    if isinstance(op, If):
        return uniform.varies((op.condition,))
    return isinstance(op, For) and uniform.varies((op.lower_bound, op.upper_bound, op.step))


def _matters_to(op: Op, walk: Walk) -> bool:
    leaving = (Break, Continue, Return) if isinstance(op, If) else (Return,)
    return any(inner is walk or isinstance(inner, leaving) for inner in nested_ops(op))
