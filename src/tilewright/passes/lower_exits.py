"""Lowers counted loops with early exits to endless loops with a counter.

    before                                  after
    %r = for %i in (%a to %n, step %s)      %r = loop iter_values(%i = %a, %v = %x) {
         iter_values(%v = %x) {               %more = cmpi less_than %i, %n
      if %c { break %v }                      if %more { yield } else { break %v }
      …                                       if %c { break %v }
      continue %w                             …
    }                                         %j = addi %i, %s
                                              continue %j, %w
                                            }

Tile IR has no `break` and no `return` inside `for`. A loop without them stays a `for`, which is
much faster: only that is pipelined. The sum wraps only if the `for` did, which also adds the step
once more after the last iteration. Runs after `lower_walks`, which makes such loops.
"""

from __future__ import annotations

from tilewright.analysis.control_flow import leaves_early
from tilewright.ir.attributes import Predicate, Signedness
from tilewright.ir.function import Function
from tilewright.ir.op import Block, Op, Value
from tilewright.ir.ops.control import Break, Continue, For, If, Loop, Yield
from tilewright.ir.rewrite import Rewriter, Rule
from tilewright.passes.integer_ops import Integers

__all__ = ["lower_exits"]


def lower_exits(function: Function) -> Function:
    """Replace every `for` that a `break` or a `return` can end."""
    found = (op for op in function.walk() if isinstance(op, For))
    return _Counting().function(function) if any(map(_ends_early, found)) else function


def _ends_early(loop: For) -> bool:
    return leaves_early(loop.body)


class _Counting(Rewriter):
    def __init__(self) -> None:
        super().__init__(_RULES)
        self.counters: list[tuple[Value, Value] | None] = []  # and step, of each enclosing loop


def _for(rewriter: _Counting, op: For) -> None:
    if not _ends_early(op):
        _plain_loop(rewriter, op)
        return
    builder = rewriter.builder
    counter, *carried = op.body.args
    lower, upper, step = (rewriter.new(v) for v in (op.lower_bound, op.upper_bound, op.step))
    sign = Signedness.UNSIGNED if op.unsigned_cmp else Signedness.SIGNED
    rewriter.counters.append((counter, step))
    with builder.inside(Block(op.body.args)) as body:
        more = Integers(builder).compare(counter, Predicate.LESS_THAN, upper, sign)
        stop = Block((), [Break(values=tuple(carried))])
        builder.add(If(condition=more, then_body=Block((), [Yield()]), else_body=stop))
        for inner in op.body.ops:
            rewriter.visit(inner)
    rewriter.counters.pop()
    first = (lower, *(rewriter.new(value) for value in op.init_values))
    types = tuple(value.type for value in carried)
    loop = builder.add(Loop(init_values=first, body=body, types=types))
    for before, after in zip(op.results, loop.results, strict=True):
        after.dtype, after.hint = before.dtype, before.hint
    rewriter.replace(op, *loop.results)


def _plain_loop(rewriter: _Counting, op: For | Loop) -> None:
    rewriter.counters.append(None)
    rewriter.keep(op)
    rewriter.counters.pop()


def _continue(rewriter: _Counting, op: Continue) -> None:
    values = tuple(rewriter.new(value) for value in op.values)
    counting = rewriter.counters[-1]
    if counting is not None:
        values = (Integers(rewriter.builder).add(*counting), *values)
    rewriter.builder.add(Continue(values=values))


_RULES: dict[type[Op], Rule] = {Continue: _continue, For: _for, Loop: _plain_loop}
