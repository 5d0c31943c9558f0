"""Variables of a pass that rebuilds a function, turned into loop-carried values.

"The token of the last store to x" and "the first check that failed" are variables of a pass; the IR
has only SSA values. `StateRewriter` makes each variable a carried value of every loop and a result
of every `if` in which it may change, and an operand of its `continue`, `break` and `yield`. The
pass names the variables that an op's regions may change; all others pass through untouched.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from tilewright.ir.op import Block, Effect, Op, Value
from tilewright.ir.ops.control import Return, Yield
from tilewright.ir.rewrite import Rewriter, Rule, is_loop, widened, with_parts

__all__ = ["RegionFrame", "StateRewriter"]

Key = TypeVar("Key")
Cell = TypeVar("Cell")


@dataclass(frozen=True, eq=False)
class RegionFrame(Generic[Key]):
    """A region op that is being rebuilt: the variables it carries, and their block arguments."""

    op: Op
    keys: tuple[Key, ...]
    arguments: tuple[Value, ...]  # none outside loops


class StateRewriter(Rewriter, Generic[Key, Cell]):
    """A rewriter with variables `state[key]`, which a pass reads and sets at each op."""

    def __init__(self, rules: Mapping[type[Op], Rule] | None = None) -> None:
        super().__init__(rules)
        self.state: dict[Key, Cell] = {}
        self.frames: list[RegionFrame[Key]] = []

    @abstractmethod
    def touched(self, op: Op) -> tuple[Key, ...]:
        """The variables that the regions of an op may change, in a fixed order."""

    @abstractmethod
    def as_value(self, cell: Cell) -> Value:
        """The SSA value that carries a variable's content; may add ops."""

    @abstractmethod
    def as_cell(self, value: Value) -> Cell:
        """A variable's content from the SSA value that carried it."""

    def at_entry(self, frame: RegionFrame[Key], key: Key, argument: Value) -> Cell:
        """A variable's content at the top of a loop's body."""
        return self.as_cell(argument)

    def at_exit(self, frame: RegionFrame[Key], key: Key, argument: Value | None) -> Value:
        """The value of a variable at the end of an iteration or of the region."""
        return self.as_value(self.state[key])

    def visit(self, op: Op) -> None:
        """Rebuild one op; regions carry the variables that they change."""
        if op.effect is Effect.CONTROL and not isinstance(op, Return):
            self._hand_on(op)
        elif op.regions:
            self._enter(op)
        else:
            super().visit(op)

    def _enter(self, op: Op) -> None:
        keys = self.touched(op)
        first = tuple(self.as_value(self.state[key]) for key in keys)
        # Both branches, and the code after a loop, share the one value instead of computing it
        # again.
        self.state.update(
            (key, self.as_cell(value)) for key, value in zip(keys, first, strict=True)
        )
        before = dict(self.state)
        regions = []
        for block in op.regions:
            regions.append(self._region(op, block, keys, first))
            self.state = dict(before)
        new = self.builder.add(widened(op.rebuilt(self.values, tuple(regions)), first))
        own = len(op.results)
        self.replace(op, *new.results[:own])
        carried = zip(keys, new.results[own:], strict=True)
        self.state.update((key, self.as_cell(value)) for key, value in carried)

    def _region(
        self, op: Op, block: Block, keys: tuple[Key, ...], first: tuple[Value, ...]
    ) -> Block:
        arguments = tuple(Value(value.type) for value in first) if is_loop(op) else ()
        frame = RegionFrame(op, keys, arguments)
        for key, argument in zip(keys, arguments, strict=False):
            self.state[key] = self.at_entry(frame, key, argument)
        self.frames.append(frame)
        new = self.block(block)
        self.frames.pop()
        new.args = (*new.args, *arguments)
        return new

    def _hand_on(self, op: Op) -> None:
        frame = self._target(op)
        arguments = frame.arguments or (None,) * len(frame.keys)
        extra = tuple(
            self.at_exit(frame, key, argument)
            for key, argument in zip(frame.keys, arguments, strict=True)
        )
        values = (*(self.new(value) for value in op.operands), *extra)
        self.builder.add(with_parts(op, values=values))

    def _target(self, op: Op) -> RegionFrame[Key]:
        """The region op that receives the operands of a terminator."""
        if isinstance(op, Yield):
            return self.frames[-1]
        return next(frame for frame in reversed(self.frames) if is_loop(frame.op))
