"""Dead code elimination: ops, carried values and whole regions.

    before                                          after
    %s, %t = for … iter_values(%a = %x, %b = %y) {  %s = for … iter_values(%a = %x) {
      continue %a2, %b2                               continue %a2
    }                                               }
    store %s                                        store %s

The roots of liveness are writes and visible output; a live op makes its operands live, the ops
around it, and the jumps that decide whether it runs. A load, a loop or an `if` without a live
result is dropped, and so is a carried value that only feeds itself. An endless loop without effects
is dropped like any other. Needs nothing earlier.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from tilewright.ir.function import Function
from tilewright.ir.op import Block, Effect, Op, Value
from tilewright.ir.ops.control import Break, Continue, If, Loop, Return
from tilewright.ir.rewrite import Rewriter, definitions, first_values, is_loop, with_parts

__all__ = ["drop_dead_code"]

_ROOTS = (Effect.WRITE, Effect.OBSERVE)


def drop_dead_code(function: Function) -> Function:
    """Remove the ops that no write and no visible op of a function depends on."""
    live = _Liveness(function)
    return _Sweep(live).function(function)


@dataclass(eq=False)
class _Exits:
    """The terminators that pass values to one region op, by their receivers."""

    next_round: list[Op] = field(default_factory=list)  # to the block arguments of a loop's body
    out: list[Op] = field(default_factory=list)  # to the results


class _Liveness:
    """Live ops, values and carried values. The marks only grow."""

    def __init__(self, function: Function) -> None:
        self.ops: set[Op] = set()
        self.carried: set[tuple[Op, int]] = set()  # by loop and position among its carried values
        self.targets: dict[Op, Op] = {}  # the receivers of a terminator's operands
        self._values: set[Value] = set()
        self._definitions = definitions(function)
        self._parents: dict[Op, Op | None] = {}
        self._exits: defaultdict[Op, _Exits] = defaultdict(_Exits)
        self._pending: list[Op | Value] = []
        self._survey(function.body, None)
        while self._pending:
            item = self._pending.pop()
            if isinstance(item, Op):
                self._follow_op(item)
            else:
                self._follow_value(item)

    def is_needed(self, value: Value) -> bool:
        """Whether a live op uses a value."""
        return value in self._values

    def _survey(self, block: Block, parent: Op | None) -> None:
        """Record the parent of each op, the target of each terminator, and the live roots."""
        for op in block.ops:
            self._parents[op] = parent
            if op.effect in _ROOTS or isinstance(op, Return):
                # A return in a branch decides about all code after it.
                self._mark_op(op)
            elif op.effect is Effect.CONTROL:
                self._survey_terminator(op, parent)
            for region in op.regions:
                self._survey(region, op)

    def _survey_terminator(self, op: Op, target: Op | None) -> None:
        while isinstance(op, Break | Continue) and target is not None and not is_loop(target):
            target = self._parents[target]
        assert target is not None, f"{op!r} stands outside the regions it can end"
        self.targets[op] = target
        exits = self._exits[target]
        (exits.next_round if isinstance(op, Continue) else exits.out).append(op)

    def _mark_op(self, op: Op) -> None:
        if op not in self.ops:
            self.ops.add(op)
            self._pending.append(op)

    def _mark(self, value: Value) -> None:
        if value not in self._values:
            self._values.add(value)
            self._pending.append(value)

    def _mark_carried(self, op: Op, place: int) -> None:
        if (op, place) not in self.carried:
            self.carried.add((op, place))
            self._mark(first_values(op)[place])
            exits = self._exits[op]
            # A break of a counted loop carries the loop's values; of an endless loop, its results.
            out = [] if isinstance(op, Loop) else exits.out
            for jump in (*exits.next_round, *out):
                self._mark(jump.operands[place])

    def _follow_op(self, op: Op) -> None:
        parent = self._parents[op]
        if parent is not None:
            self._mark_op(parent)
        if op in self.targets:
            return  # operands of a terminator are live one by one
        for value in op.operands[: len(op.operands) - len(first_values(op))]:
            self._mark(value)
        if not op.regions:
            return
        exits = self._exits[op]
        for jump in (*exits.next_round, *exits.out):
            self._mark_op(jump)  # and with it the enclosing branch
            if not _can_shrink(op):
                for value in jump.operands:
                    self._mark(value)

    def _follow_value(self, value: Value) -> None:
        definition = self._definitions.get(value)
        if definition is None:
            return
        op, place = definition.op, definition.position
        self._mark_op(op)
        if definition.is_argument:
            place -= len(op.regions[0].args) - len(first_values(op))
            if is_loop(op) and place >= 0:
                self._mark_carried(op, place)
        elif is_loop(op) and not isinstance(op, Loop):
            self._mark_carried(op, place)  # the last iteration gives a counted loop's results
        elif op.regions:
            for jump in self._exits[op].out:
                self._mark(jump.operands[place])


class _Sweep(Rewriter):
    def __init__(self, live: _Liveness) -> None:
        super().__init__()
        self._live = live

    def visit(self, op: Op) -> None:
        """Keep a live op, with the carried values and results that are live."""
        if op.effect is Effect.CONTROL:
            self._terminator(op)
        elif op in self._live.ops:
            if _can_shrink(op):
                self._shrink(op)
            else:
                self.keep(op)

    def _terminator(self, op: Op) -> None:
        target = self._live.targets.get(op)
        values = op.operands
        if target is not None:
            carried = isinstance(op, Continue)
            places = self._carried(target) if carried else self._results(target)
            values = tuple(op.operands[place] for place in places)
        self.builder.add(with_parts(op, values=tuple(map(self.new, values))))

    def _shrink(self, op: Op) -> None:
        results = self._results(op)
        changes: dict[str, Any] = {}
        if is_loop(op):
            changes["init_values"] = tuple(
                self.new(first_values(op)[place]) for place in self._carried(op)
            )
        if isinstance(op, If | Loop):
            changes["types"] = tuple(op.types[place] for place in results)
        regions = tuple(self._body(op, region) for region in op.regions)
        new = self.builder.add(with_parts(op.rebuilt(self.values, regions), **changes))
        for place, value in zip(results, new.results, strict=True):
            old = op.results[place]
            value.dtype, value.hint = old.dtype, old.hint
            self.values[old] = value

    def _body(self, op: Op, region: Block) -> Block:
        own = len(region.args) - len(first_values(op))
        carried = tuple(region.args[own + place] for place in self._carried(op))
        new = self.block(region)
        new.args = (*region.args[:own], *carried)
        return new

    def _carried(self, op: Op) -> list[int]:
        """Positions of the carried values that stay."""
        places = range(len(first_values(op)))
        return [place for place in places if (op, place) in self._live.carried]

    def _results(self, op: Op) -> list[int]:
        """Positions of the results that stay."""
        if is_loop(op) and not isinstance(op, Loop):
            return self._carried(op)
        places = range(len(op.results))
        if not _can_shrink(op):
            return list(places)
        return [place for place in places if self._live.is_needed(op.results[place])]


def _can_shrink(op: Op) -> bool:
    """Whether single results can be dropped; those of a reduction cannot."""
    return is_loop(op) or isinstance(op, If)
