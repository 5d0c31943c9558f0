"""Formulas over tiles while a kernel is lowered: `x * y + 1.0` adds the ops that compute it.

A composed function of the language is written as its formula, without source that would have to be
captured. Operands are already checked; numbers take the dtype of the formula beside them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.dtypes import DType, i32
from tilewright.frontend.builtins.bits import bits_as
from tilewright.frontend.expressions.comparisons import compared
from tilewright.frontend.expressions.conversions import convert
from tilewright.frontend.expressions.operators import apply_binary, inverted
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.operands import Operand, Static, TileOperand
from tilewright.frontend.operands.tiles import broadcast_together, constant, reshaped, unify
from tilewright.ir.op import Block, Op, Value
from tilewright.ir.ops.control import Continue, For
from tilewright.ir.ops.elementwise import Fma, Select
from tilewright.ir.ops.shape import Extract, Iota
from tilewright.ir.types import TileType, scalar

__all__ = ["Number", "TileFormula", "Turn", "compared_at_once", "repeated"]

_MOST_COMPARISONS = 1 << 14  # at a time: as many as the registers of a block hold


@dataclass(frozen=True, eq=False)
class TileFormula:
    """A tile, or a scalar, with the source location of its ops."""

    lo: Lowering
    node: ast.AST
    tile: TileOperand

    @property
    def dtype(self) -> type[DType]:
        """The type of the elements."""
        return self.tile.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        return self.tile.shape

    def like(self, tile: Operand) -> TileFormula:
        """Another tile at the same source location."""
        assert isinstance(tile, TileOperand)
        return TileFormula(self.lo, self.node, tile)

    def filled(self, number: float) -> TileFormula:
        """One number in every element of a tile like this one."""
        return self.like(constant(self.lo, self.node, number, self.dtype, self.shape))

    def operand(self, other: Number) -> Operand:
        """The other operand of this formula."""
        return other.tile if isinstance(other, TileFormula) else Static(other)

    # --- operators --------------------------------------------------------------------------------

    def _computed(self, sign: ast.operator, other: Number) -> TileFormula:
        made = apply_binary(self.lo, self.node, sign, self.tile, self.operand(other))
        return self.like(made)

    def _reflected(self, sign: ast.operator, other: float) -> TileFormula:
        return self.like(apply_binary(self.lo, self.node, sign, Static(other), self.tile))

    def __add__(self, other: Number) -> TileFormula:
        return self._computed(ast.Add(), other)

    def __radd__(self, other: float) -> TileFormula:
        return self._reflected(ast.Add(), other)

    def __sub__(self, other: Number) -> TileFormula:
        return self._computed(ast.Sub(), other)

    def __rsub__(self, other: float) -> TileFormula:
        return self._reflected(ast.Sub(), other)

    def __mul__(self, other: Number) -> TileFormula:
        return self._computed(ast.Mult(), other)

    def __rmul__(self, other: float) -> TileFormula:
        return self._reflected(ast.Mult(), other)

    def __truediv__(self, other: Number) -> TileFormula:
        return self._computed(ast.Div(), other)

    def __rtruediv__(self, other: float) -> TileFormula:
        return self._reflected(ast.Div(), other)

    def __and__(self, other: Number) -> TileFormula:
        return self._computed(ast.BitAnd(), other)

    def __or__(self, other: Number) -> TileFormula:
        return self._computed(ast.BitOr(), other)

    def __xor__(self, other: Number) -> TileFormula:
        return self._computed(ast.BitXor(), other)

    def __lshift__(self, other: Number) -> TileFormula:
        return self._computed(ast.LShift(), other)

    def __rshift__(self, other: Number) -> TileFormula:
        return self._computed(ast.RShift(), other)

    def __invert__(self) -> TileFormula:
        return self.like(inverted(self.lo, self.node, self.tile))

    def __lt__(self, other: Number) -> TileFormula:
        return self._compared(ast.Lt(), other)

    def __le__(self, other: Number) -> TileFormula:
        return self._compared(ast.LtE(), other)

    def __gt__(self, other: Number) -> TileFormula:
        return self._compared(ast.Gt(), other)

    def __ge__(self, other: Number) -> TileFormula:
        return self._compared(ast.GtE(), other)

    def equals(self, other: Number) -> TileFormula:
        """Truth values: equal elements. A NaN equals nothing."""
        return self._compared(ast.Eq(), other)

    def differs(self, other: Number) -> TileFormula:
        """Truth values: different elements."""
        return self._compared(ast.NotEq(), other)

    def _compared(self, sign: ast.cmpop, other: Number) -> TileFormula:
        found = compared(self.lo, self.node, sign, self.tile, self.operand(other))
        return self.like(found)

    # --- functions --------------------------------------------------------------------------------

    def applied(self, op: type[Op], **fields: Any) -> TileFormula:
        """An op of one operand, whose result has the same dtype."""
        made = op(source=self.tile.value, dtype=self.dtype, **fields)
        return self.like(TileOperand(self.lo.builder.add(made).results[0], self.dtype))

    def fma(self, factor: Number, term: Number) -> TileFormula:
        """`self * factor + term`, rounded once."""
        lhs, rhs = unify(self.lo, self.node, "fma", self.tile, self.operand(factor))
        lhs, acc = unify(self.lo, self.node, "fma", lhs, self.operand(term))
        made = Fma(lhs=lhs.value, rhs=rhs.value, acc=acc.value, dtype=self.dtype)
        return self.like(TileOperand(self.lo.builder.add(made).result, self.dtype))

    def where(self, condition: TileFormula, other: Number) -> TileFormula:
        """This formula where the condition holds, the other one elsewhere."""
        yes, no = unify(self.lo, self.node, "where", self.tile, self.operand(other))
        cond, yes, no = broadcast_together(self.lo, self.node, "where", condition.tile, yes, no)
        made = Select(
            cond=cond.value, val_if_true=yes.value, val_if_false=no.value, dtype=self.dtype
        )
        return self.like(TileOperand(self.lo.builder.add(made).result, self.dtype))

    def astype(self, dtype: type[DType]) -> TileFormula:
        """Every element converted."""
        return self.like(convert(self.lo, self.tile, dtype))

    def counted(self, number: int) -> TileFormula:
        """The numbers from zero on, as a tile of i32."""
        made = self.lo.builder.add(Iota(to=TileType(i32.element, (number,)), dtype=i32))
        return self.like(TileOperand(made.result, i32))

    def bits_as(self, dtype: type[DType]) -> TileFormula:
        """The bits of every element read as another dtype."""
        return self.like(bits_as(self.lo, self.tile, dtype))

    def reshaped(self, *shape: int) -> TileFormula:
        """The same elements in another shape."""
        return self.like(reshaped(self.lo, self.tile, shape))

    def part(self, shape: Sequence[int], number: Sequence[Value]) -> TileFormula:
        """One of the parts of this shape, by its number along each axis."""
        to = self.tile.type.with_shape(tuple(shape))
        made = Extract(source=self.tile.value, indices=tuple(number), to=to, dtype=self.dtype)
        return self.like(TileOperand(self.lo.builder.add(made).result, self.dtype))


# From the number of an iteration and the carried value to the next value.
Turn = Callable[[TileFormula, TileFormula], TileFormula]


def repeated(turns: int, start: TileFormula, turn: Turn) -> TileFormula:
    """A loop that carries one value: `turn` maps the iteration's number and value to the next."""
    lo = start.lo
    if turns == 1:
        return turn(start.like(TileOperand(lo.builder.index(0), i32)), start)
    counter, carried = Value(scalar(i32.element), i32), Value(start.tile.type, start.dtype)
    with lo.builder.inside(Block((counter, carried))) as body:
        number = start.like(TileOperand(counter, i32))
        result = turn(number, start.like(TileOperand(carried, start.dtype)))
        lo.builder.add(Continue(values=(result.tile.value,)))
    lower, upper, step = (lo.builder.index(end) for end in (0, turns, 1))
    init = (start.tile.value,)
    loop = For(lower_bound=lower, upper_bound=upper, step=step, init_values=init, body=body)
    last = lo.builder.add(loop).result_values[0]
    last.dtype = start.dtype
    return start.like(TileOperand(last, start.dtype))


def compared_at_once(extent: int, others: int) -> int:
    """How many of `extent` elements one iteration compares with `others` elements."""
    return max(1, min(extent, _MOST_COMPARISONS // others))


# An operand of a formula.
Number = TileFormula | float
