"""Fuses products with the sum that is their only use.

    before                              after
    %p = mulf %a, %b                    %r = fma %a, %b, %c
    %r = addf %p, %c

    %r = subf %p, %c                    %n = negf %c
                                        %r = fma %a, %b, %n

    %r = subf %c, %p                    %n = negf %a
                                        %r = fma %n, %b, %c

The assembler does not contract by itself. A product is fused if it has one use and the rounding of
the sum; of two such operands the left one is fused. The product itself remains without a use:
`drop_dead_code` runs before, so that unused sums do not count as uses, and after.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from tilewright.dtypes import Element
from tilewright.ir.function import Function
from tilewright.ir.op import Value
from tilewright.ir.ops.elementwise import AddF, Fma, MulF, NegF, SubF
from tilewright.ir.rewrite import Definition, Rewriter, definitions, has_any, use_counts
from tilewright.ir.types import TileType

__all__ = ["fuse_fma"]

_FUSED = frozenset({Element.F16, Element.BF16, Element.F32, Element.F64})


def fuse_fma(function: Function) -> Function:
    """Fuse every product that is used once, in a sum or a difference."""
    if not has_any(function, {MulF}):
        return function
    return _Fusion(definitions(function), use_counts(function)).function(function)


class _Fusion(Rewriter):
    def __init__(self, definitions: dict[Value, Definition], uses: Counter[Value]) -> None:
        super().__init__({AddF: _fuse_sum, SubF: _fuse_difference})
        self._definitions = definitions
        self._uses = uses

    def product(self, value: Value, sum: AddF | SubF) -> MulF | None:
        """The product behind an old operand of a sum, if it can be fused."""
        definition = self._definitions.get(value)
        if definition is None or not isinstance(definition.op, MulF) or self._uses[value] != 1:
            return None
        product = definition.op
        same = (product.rounding_mode, product.flush_to_zero) == (
            sum.rounding_mode,
            sum.flush_to_zero,
        )
        assert isinstance(value.type, TileType)
        return product if same and value.type.element in _FUSED else None

    def fuse(self, op: AddF | SubF, lhs: Value, rhs: Value, acc: Value) -> None:
        """Replace a sum by a fused multiply-add of new values."""
        modes: dict[str, Any] = {
            "rounding_mode": op.rounding_mode,
            "flush_to_zero": op.flush_to_zero,
        }
        fused = Fma(lhs=lhs, rhs=rhs, acc=acc, dtype=op.dtype, **modes)
        self.replace(op, self.builder.add(fused).result)

    def negative(self, old: Value) -> Value:
        """An old value negated; exact, so without rounding."""
        return self.builder.add(NegF(source=self.new(old), dtype=old.dtype)).result


def _fuse_sum(rewriter: _Fusion, op: AddF) -> None:
    new = rewriter.new
    if product := rewriter.product(op.lhs, op):
        rewriter.fuse(op, new(product.lhs), new(product.rhs), new(op.rhs))
    elif product := rewriter.product(op.rhs, op):
        rewriter.fuse(op, new(product.lhs), new(product.rhs), new(op.lhs))
    else:
        rewriter.keep(op)


def _fuse_difference(rewriter: _Fusion, op: SubF) -> None:
    new = rewriter.new
    if product := rewriter.product(op.lhs, op):
        rewriter.fuse(op, new(product.lhs), new(product.rhs), rewriter.negative(op.rhs))
    elif product := rewriter.product(op.rhs, op):
        rewriter.fuse(op, rewriter.negative(product.lhs), new(product.rhs), new(op.lhs))
    else:
        rewriter.keep(op)
