"""Keeps accesses that are ordered through loops and branches off the tensor memory accelerator.

    before                                      after
    %t2 = for … iter_values(%t1 = %t0) {        …
      %t = store_view_tko %v, %z[%i]              %t = store_view_tko %v, %z[%i]
           token = %t1                                 token = %t1 allow_tma = false
      continue %t                                 continue %t
    }                                           }

tileiras runs accesses of the accelerator on warps of their own, which pass tokens on by barriers.
Where a token goes through control flow those warps replicate it, and can fall out of step: a kernel
whose loop is left by `break` inside an `if` inside a `for` did not terminate (13.4, sm_90). Such
accesses are of outputs that a block reads and writes more than once; all others keep their hints.
Needs tokens in place and no dead code among them.
"""

from __future__ import annotations

from tilewright.ir.attributes import EVERY_TARGET, Dictionary, TargetHints
from tilewright.ir.function import Function
from tilewright.ir.op import Effect, Op, Value
from tilewright.ir.ops.memory import LoadView, MakeToken, StoreView
from tilewright.ir.rewrite import Rewriter, Rule, with_parts
from tilewright.ir.types import TokenType

__all__ = ["avoid_tma"]


def avoid_tma(function: Function) -> Function:
    """Mark the accesses whose order goes through control flow."""
    webs = _Webs(function)
    if not webs.marked:
        return function
    return _Marking(webs).function(function)


class _Webs:
    """Sets of connected tokens; sets that pass through control flow are marked."""

    def __init__(self, function: Function) -> None:
        self._leaders: dict[Value, Value] = {}
        # A fresh token orders nothing.
        self._fresh = {op.result for op in function.walk() if isinstance(op, MakeToken)}
        handed_on: list[Value] = []
        for op in function.walk():
            if op.regions or op.effect is Effect.CONTROL:
                handed_on += self._tokens(op)
            else:
                self._join(self._tokens(op))
        self.marked = {self._leader(token) for token in handed_on}

    def is_marked(self, op: Op) -> bool:
        """Whether an access is ordered through control flow."""
        return any(self._leader(token) in self.marked for token in self._tokens(op))

    def _tokens(self, op: Op) -> list[Value]:
        arguments = (value for block in op.regions for value in block.args)
        values = (*op.operands, *op.results, *arguments)
        return [v for v in values if isinstance(v.type, TokenType) and v not in self._fresh]

    def _leader(self, token: Value) -> Value:
        while token in self._leaders:
            token = self._leaders[token]
        return token

    def _join(self, tokens: list[Value]) -> None:
        leaders = {self._leader(token) for token in tokens}
        if leaders:
            first = leaders.pop()
            self._leaders.update((other, first) for other in leaders)


class _Marking(Rewriter):
    """Adds the hint to marked accesses."""

    def __init__(self, webs: _Webs) -> None:
        super().__init__(_RULES)
        self.webs = webs


def _access(marking: _Marking, op: LoadView | StoreView) -> None:
    if not marking.webs.is_marked(op):
        marking.keep(op)
        return
    new = with_parts(op.rebuilt(marking.values, ()), hints=_off(op.hints))
    marking.builder.add(new)
    marking.replace(op, *new.results)


def _off(hints: TargetHints | None) -> TargetHints:
    """The same hints, with the accelerator disabled on every target."""
    given = {} if hints is None else dict(hints.targets)
    given.setdefault(EVERY_TARGET, Dictionary())
    return TargetHints(tuple((target, _without_tma(known)) for target, known in given.items()))


def _without_tma(known: Dictionary) -> Dictionary:
    return Dictionary(tuple(sorted((dict(known.items) | {"allow_tma": False}).items())))


_RULES: dict[type[Op], Rule] = {LoadView: _access, StoreView: _access}
