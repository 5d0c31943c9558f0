"""Lowers floor division, ceiling division and modulo to ops of Tile IR with explicit signedness.

    before                      after, signs unknown            after, both certainly not negative
    %q = floor_div %a, %b       %m = cmpi equal %b, -1          %q = divi %a, %b signed
                                %d = select %m, 1, %b
                                %f = divi %a, %d signed rounding<negative_inf>
                                %n = negi %a
                                %q = select %m, %n, %f

The least integer divided by -1 has no quotient, and Tile IR leaves it undefined; so a division by
-1 is replaced by the negation, which wraps. Ceiling division is the same with the other rounding;
for unsigned integers, where Tile IR only truncates, it adds one if there is a remainder. A value
read as another dtype, which gives a division its signedness, becomes the value itself. Needs
non-zero divisors (`place_checks` has replaced the others); runs before `lower_walks`, which removes
the ops that show a tile number to be non-negative.
"""

from __future__ import annotations

import numpy as np

from tilewright.ir.attributes import Predicate, Rounding, Signedness
from tilewright.ir.function import Function
from tilewright.ir.op import Op, Value
from tilewright.ir.ops.internal import (
    Averaged,
    CeilDiv,
    FloorDiv,
    FloorMod,
    ReadAs,
    Sorted,
)
from tilewright.ir.ops.shape import Constant
from tilewright.ir.rewrite import Rewriter, Rule, definitions, has_any
from tilewright.passes.integer_ops import Integers, is_unsigned
from tilewright.passes.sign import Signs

__all__ = ["lower_arithmetic"]


def lower_arithmetic(function: Function) -> Function:
    """Replace every floor division, ceiling division and floor modulo."""
    if not has_any(function, _RULES):
        return function
    return _Arithmetic(function).function(function)


class _Arithmetic(Rewriter):
    def __init__(self, function: Function) -> None:
        super().__init__(_RULES)
        self._definitions = definitions(function)
        self._signs = Signs(self._definitions)

    def is_natural(self, value: Value) -> bool:
        """Whether an old value is known to be non-negative."""
        return self._signs.is_non_negative(value)

    def may_be_minus_one(self, value: Value) -> bool:
        """Whether an old value may hold a -1."""
        definition = self._definitions.get(value)
        if definition is not None and isinstance(definition.op, Constant):
            return bool(np.any(np.asarray(definition.op.value) == -1))
        return not self.is_natural(value)


def _floor_div(rewriter: _Arithmetic, op: FloorDiv) -> None:
    emit = Integers(rewriter.builder)
    lhs, rhs = rewriter.new(op.lhs), rewriter.new(op.rhs)
    if _has_no_sign(op):
        quotient = emit.divide(lhs, rhs, signedness=Signedness.UNSIGNED)
    elif rewriter.is_natural(op.lhs) and rewriter.is_natural(op.rhs):
        quotient = emit.divide(lhs, rhs)
    else:
        quotient = _signed_quotient(rewriter, op, Rounding.NEGATIVE_INF)
    rewriter.replace(op, quotient)


def _ceil_div(rewriter: _Arithmetic, op: CeilDiv) -> None:
    if not _has_no_sign(op):
        rewriter.replace(op, _signed_quotient(rewriter, op, Rounding.POSITIVE_INF))
        return
    emit = Integers(rewriter.builder)
    lhs, rhs = rewriter.new(op.lhs), rewriter.new(op.rhs)
    quotient = emit.divide(lhs, rhs, signedness=Signedness.UNSIGNED)
    left_over = emit.remainder(lhs, rhs, Signedness.UNSIGNED)
    # Division by 1 leaves no remainder, so the largest number is never incremented.
    is_exact = emit.compare(left_over, Predicate.EQUAL, 0)
    rewriter.replace(op, emit.select(is_exact, quotient, emit.add(quotient, 1)))


def _signed_quotient(rewriter: _Arithmetic, op: CeilDiv | FloorDiv, rounding: Rounding) -> Value:
    emit = Integers(rewriter.builder)
    lhs, rhs = rewriter.new(op.lhs), rewriter.new(op.rhs)
    if not rewriter.may_be_minus_one(op.rhs):
        return emit.divide(lhs, rhs, rounding)
    flips = emit.compare(rhs, Predicate.EQUAL, -1)
    rounded = emit.divide(lhs, emit.select(flips, 1, rhs), rounding)
    return emit.select(flips, emit.negative(lhs), rounded)


def _floor_mod(rewriter: _Arithmetic, op: FloorMod) -> None:
    emit = Integers(rewriter.builder)
    lhs, rhs = rewriter.new(op.lhs), rewriter.new(op.rhs)
    if _has_no_sign(op):
        rewriter.replace(op, emit.remainder(lhs, rhs, Signedness.UNSIGNED))
        return
    if rewriter.may_be_minus_one(op.rhs):
        # The remainder by -1 is that by 1: zero.
        rhs = emit.select(emit.compare(rhs, Predicate.EQUAL, -1), 1, rhs)
    remainder = emit.remainder(lhs, rhs)
    if not rewriter.is_natural(op.rhs):
        differ = emit.compare(emit.differing(remainder, rhs), Predicate.LESS_THAN, 0)
        wrong = emit.both(differ, emit.compare(remainder, Predicate.NOT_EQUAL, 0))
        remainder = emit.select(wrong, emit.add(remainder, rhs), remainder)
    elif not rewriter.is_natural(op.lhs):
        wrong = emit.compare(remainder, Predicate.LESS_THAN, 0)
        remainder = emit.select(wrong, emit.add(remainder, rhs), remainder)
    rewriter.replace(op, remainder)


def _has_no_sign(op: CeilDiv | FloorDiv | FloorMod) -> bool:
    return is_unsigned(op.result) or is_unsigned(op.lhs)


def _same(rewriter: _Arithmetic, op: ReadAs | Averaged | Sorted) -> None:
    rewriter.replace(op, rewriter.new(op.source))


_RULES: dict[type[Op], Rule] = {
    CeilDiv: _ceil_div, FloorDiv: _floor_div, FloorMod: _floor_mod, ReadAs: _same, Averaged: _same,
    Sorted: _same,
}  # fmt: skip
