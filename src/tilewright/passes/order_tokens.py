"""Orders the conflicting memory accesses of one block by tokens.

    before                                  after
    %a = load x[…]                          %a = load x[…]
    store %a, z[…]                          %t = store %a, z[…]
    %b = load z[…]                          %b, %u = load z[…] token = %t
    store %c, z[…]                          store %c, z[…] token = %u

Printed text counts as one more tensor, which every `print` writes. Accesses to a tensor that is
only read, or only changed by atomic ops without uses, get no tokens. For every other tensor a load
waits for the last store, a store for the last store and the loads since; a load never waits for a
load, because that would undo the pipelining of loops. The tokens go through every `if`, `for`,
`loop` and `walk` that touches the tensor, so a store in a branch or in a loop is ordered before
later accesses. Where the steps of a loop touch different tiles (`disjoint_steps`), they wait only
for accesses before the loop.

But steps that read and write small tiles wait for each other. A tile with fewer elements than
threads is replicated in several warps; tileiras (13.4, sm_90) prefetches the first tiles and,
inside a second loop, has no barrier before it stores them, so the last warp could read elements
that another has stored already.

Needs `place_checks` (it puts stores into branches), `merge_duplicates` (equal views are one value)
and `drop_dead_code` (an unused load would be kept alive by its token); runs before `lower_walks`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import Enum, auto

from tilewright.dtypes import Element
from tilewright.ir.attributes import MemoryOrder
from tilewright.ir.function import ENTRY_HINTS, Function
from tilewright.ir.op import Effect, Op, Value
from tilewright.ir.ops.memory import JoinTokens, LoadView, MakeToken, StoreView
from tilewright.ir.rewrite import definitions, nested_ops, use_counts, with_parts
from tilewright.ir.types import TileType, TokenType
from tilewright.passes.carried_state import RegionFrame, StateRewriter
from tilewright.passes.disjoint_steps import steps_are_disjoint
from tilewright.passes.memory_roots import ANYWHERE, MemoryRoots

__all__ = ["order_tokens"]

_MOST_THREADS = 256  # that hold the elements of a tile, in each CTA of a block
_MOST_AT_ONCE = 16  # bytes that a thread reads or writes by one instruction

Tokens = tuple[Value, ...]  # all of them are waited for; empty: no wait


class _Last(Enum):
    """The kind of a variable: the stores so far, or all accesses so far."""

    STORE = auto()
    ACCESS = auto()


Variable = tuple[str, _Last]  # of one tensor


def order_tokens(function: Function) -> Function:
    """Add tokens to every memory op that can conflict with another."""
    conflicts = _Conflicts(function)
    return _Ordering(conflicts).function(function) if conflicts.ordered else function


class _Conflicts:
    """The tensors that each op touches, of those with conflicts."""

    def __init__(self, function: Function) -> None:
        self._held_once = _held_once(function)
        self._definitions = definitions(function)
        self._uses = use_counts(function)
        roots = MemoryRoots(self._definitions)
        touched = {op: found for op in function.walk() if (found := roots.of(op))}
        everything = frozenset().union(*touched.values())
        # An access with an unknown root, or one that synchronizes, conflicts with every other.
        self._touched = {
            op: everything if ANYWHERE in found or _synchronizes(op) else found
            for op, found in touched.items()
        }
        self.ordered = frozenset(root for root in everything if self._needs_order(root))
        self._inside = self._find_inside(function)

    def of(self, op: Op) -> list[str]:
        """The names of the tensors whose accesses order an op."""
        return sorted(self._touched.get(op, frozenset()) & self.ordered)

    def inside(self, op: Op) -> list[tuple[str, bool]]:
        """The tensors that the regions of an op access, and whether they change them."""
        return sorted(self._inside.get(op, {}).items())

    def _find_inside(self, function: Function) -> dict[Op, dict[str, bool]]:
        found: dict[Op, dict[str, bool]] = {}
        for op in reversed(tuple(function.walk())):  # nested ops come before the op around them
            summary: dict[str, bool] = {}
            for inner in (one for block in op.regions for one in block.ops):
                own = [(root, _changes(inner)) for root in self.of(inner)]
                for root, changes in (*own, *found.get(inner, {}).items()):
                    summary[root] = summary.get(root, False) or changes
            if summary:
                found[op] = summary
        return found

    def are_disjoint(self, loop: Op, root: str) -> bool:
        """Whether the steps of a loop touch different parts of a tensor, and need no order."""
        accesses = [op for op in nested_ops(loop) if root in self.of(op)]
        if not steps_are_disjoint(loop, accesses, self._definitions):
            return False
        return all(map(_changes, accesses)) or all(map(self._is_held_once, accesses))

    def _is_held_once(self, op: Op) -> bool:
        """Whether no element of a tile is replicated in two threads."""
        assert isinstance(op, LoadView | StoreView), "other accesses are nowhere disjoint"
        of = op.tile.type
        assert isinstance(of, TileType)
        assert isinstance(of.element, Element)
        return math.prod(of.shape) * of.element.bits // 8 >= self._held_once

    def _needs_order(self, root: str) -> bool:
        accesses = [op for op, found in self._touched.items() if root in found]
        if any(map(_synchronizes, accesses)):
            return True
        is_written = any(map(_changes, accesses))
        return is_written and not all(map(self._is_blind_atomic, accesses))

    def _is_blind_atomic(self, op: Op) -> bool:
        """Whether an op is atomic and its old value is unused: such ops may run in any order."""
        seen = any(self._uses[v] for v in op.results if not isinstance(v.type, TokenType))
        return _order_of(op) is MemoryOrder.RELAXED and not seen


class _Ordering(StateRewriter[Variable, Tokens]):
    def __init__(self, conflicts: _Conflicts) -> None:
        super().__init__()
        self._conflicts = conflicts
        self._start = MakeToken()
        self._outside: dict[tuple[Op, Variable], Tokens] = {}  # of loops with disjoint steps
        self.state = {(root, last): () for root in conflicts.ordered for last in _Last}

    def function(self, function: Function) -> Function:
        """The whole function, with a fresh token at the top."""
        new = super().function(function)
        new.body.ops.insert(0, self._start)
        return new

    def visit(self, op: Op) -> None:
        """Rebuild one op; a memory op gets the token it waits for."""
        roots = self._conflicts.of(op)
        if roots:
            self._order(op, roots)
        else:
            super().visit(op)

    def _order(self, op: Op, roots: list[str]) -> None:
        is_write = _changes(op)
        last = _Last.ACCESS if is_write else _Last.STORE
        waits = _distinct(token for root in roots for token in self.state[root, last])
        token = self.as_value(waits) if waits else None
        new = self.builder.add(with_parts(op.rebuilt(self.values), token=token))
        self.replace(op, *new.results)
        done = next(value for value in new.results if isinstance(value.type, TokenType))
        for root in roots:
            if is_write:
                self.state[root, _Last.STORE] = self.state[root, _Last.ACCESS] = (done,)
            else:
                # A wait for this load includes the tokens that the load has waited for.
                others = (t for t in self.state[root, _Last.ACCESS] if t not in waits)
                self.state[root, _Last.ACCESS] = (*others, done)

    def touched(self, op: Op) -> tuple[Variable, ...]:
        """A region that only reads a tensor keeps the token of its last store."""
        keys: list[Variable] = []
        for root, is_changed in self._conflicts.inside(op):
            keys.append((root, _Last.ACCESS))
            if is_changed:
                keys.append((root, _Last.STORE))
        return tuple(keys)

    def as_value(self, cell: Tokens) -> Value:
        """One token that joins several."""
        if len(cell) > 1:
            return self.builder.add(JoinTokens(tokens=cell)).result
        return cell[0] if cell else self._start.result

    def as_cell(self, value: Value) -> Tokens:
        """The tokens of a carried value."""
        return () if value is self._start.result else (value,)

    def at_entry(self, frame: RegionFrame[Variable], key: Variable, argument: Value) -> Tokens:
        """Disjoint steps wait only for the accesses before their loop."""
        if not self._conflicts.are_disjoint(frame.op, key[0]):
            return self.as_cell(argument)
        self._outside[frame.op, key] = self.state[key]
        return self.state[key]

    def at_exit(self, frame: RegionFrame[Variable], key: Variable, argument: Value | None) -> Value:
        """Code after a loop with disjoint steps waits for all of them."""
        outside = self._outside.get((frame.op, key))
        if outside is None or argument is None:
            return self.as_value(self.state[key])
        inside = (token for token in self.state[key] if token not in outside)
        return self.as_value((argument, *inside))


def _held_once(function: Function) -> int:
    """The least number of bytes of a tile that no thread replicates."""
    ctas = () if function.hints is None else function.hints.named(ENTRY_HINTS["num_ctas"].name)
    return _MOST_THREADS * _MOST_AT_ONCE * max((n for n in ctas if isinstance(n, int)), default=1)


def _distinct(tokens: Iterable[Value]) -> Tokens:
    return tuple(dict.fromkeys(tokens))


def _changes(op: Op) -> bool:
    """Whether an op writes to memory, or to the printed text."""
    return op.effect in (Effect.WRITE, Effect.OBSERVE)


def _order_of(op: Op) -> MemoryOrder:
    order: MemoryOrder = getattr(op, "memory_ordering", MemoryOrder.WEAK)
    return order


def _synchronizes(op: Op) -> bool:
    """Whether an op orders accesses to memory other than its own."""
    return _order_of(op) not in (MemoryOrder.WEAK, MemoryOrder.RELAXED)
