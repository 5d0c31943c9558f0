"""Hoists loop-invariant checks out of their loops.

    before                              after
    for %k in %low to %high {           %runs = %low < %high
      %j = bounds_check %i, %n          %i1 = select %runs, %i, 0
      %t = load %v[%j, %k]              %n1 = select %runs, %n, 1
      …                                 %j = bounds_check %i1, %n1
    }                                   for %k in %low to %high {
                                          %t = load %v[%j, %k]
                                          …

If the loop does not run, the operands are replaced by ones that pass the check. A check leaves one
loop after the other. Needs settled checks: a check that is proved inside a loop is not hoisted.
"""

from __future__ import annotations

from tilewright.analysis.hoisting import find_hoisted, leaving_ops
from tilewright.ir.attributes import Predicate, Signedness
from tilewright.ir.builder import Builder
from tilewright.ir.function import Function
from tilewright.ir.op import Op, Value
from tilewright.ir.ops.control import For
from tilewright.ir.ops.internal import BoundsCheck, DivisorCheck
from tilewright.ir.rewrite import Rewriter, Rule
from tilewright.passes.integer_ops import Integers

__all__ = ["hoist_checks"]


def hoist_checks(function: Function) -> Function:
    """Move every check out of loops as far as it still fails exactly when it did."""
    while find_hoisted(function.body):
        function = _Hoisting(_RULES).function(function)
    return function


class _Hoisting(Rewriter):
    """One round: each check leaves its innermost loop."""


def _loop(hoisting: _Hoisting, op: For) -> None:
    moved = leaving_ops(op)
    if not moved:
        hoisting.keep(op)
        return
    runs = _runs(hoisting, op)
    for inner in moved:
        _move(hoisting, inner, runs)
    stays = [inner for inner in op.body.ops if inner not in moved]
    body = type(op.body)(op.body.args, stays)
    new = hoisting.builder.add(op.rebuilt(hoisting.values, (hoisting.block(body),)))
    hoisting.replace(op, *new.results)


def _runs(hoisting: _Hoisting, op: For) -> Value:
    """Whether the loop runs at least once."""
    sign = Signedness.UNSIGNED if op.unsigned_cmp else Signedness.SIGNED
    low, high = hoisting.new(op.lower_bound), hoisting.new(op.upper_bound)
    return Integers(hoisting.builder).compare(low, Predicate.LESS_THAN, high, sign)


def _move(hoisting: _Hoisting, op: Op, runs: Value) -> None:
    """Replace the checked operands by harmless ones if the loop does not run."""
    outer, hoisting.builder.loc = hoisting.builder.loc, op.loc
    new = op.rebuilt(hoisting.values, ())
    if isinstance(new, BoundsCheck):
        index = _unless(hoisting.builder, runs, new.index, 0)
        count = _unless(hoisting.builder, runs, new.count, 1)
        new = BoundsCheck(index=index, count=count, site=new.site, skips=new.skips)
    elif isinstance(new, DivisorCheck):
        new = DivisorCheck(divisor=_unless(hoisting.builder, runs, new.divisor, 1))
    hoisting.builder.add(new)
    for before, after in zip(op.results, new.results, strict=True):
        after.dtype, after.hint = before.dtype, before.hint
    hoisting.replace(op, *new.results)
    hoisting.builder.loc = outer


def _unless(builder: Builder, runs: Value, value: Value, otherwise: int) -> Value:
    emit = Integers(builder)
    chosen = emit.select(runs, value, emit.constant(otherwise, value))
    chosen.hint = value.hint
    return chosen


_RULES: dict[type[Op], Rule] = {For: _loop}
